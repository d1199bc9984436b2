//! `plasma-load RPC TRANSFERS BUNDLE CONNECTIONS`: one run with alice's coins on a devnet.

use std::time::Duration;

use plasma_client::rpc::NodeClient;
use plasma_client::wallet::devnet_key;

/// Time limit of a call under load.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rpc, transfers, bundle, connections] = &arguments[..] else {
        return Err("usage: plasma-load RPC TRANSFERS BUNDLE CONNECTIONS".into());
    };
    let node = NodeClient::new(rpc, CALL_TIMEOUT)?;
    let alice = devnet_key("alice").ok_or("no alice")?;
    let bob = devnet_key("bob").ok_or("no bob")?.address();
    let txs = plasma_qa::make_txs(&node, &alice, bob, transfers.parse()?, bundle.parse()?).await?;
    if txs.is_empty() {
        return Err("alice has no coins that never moved: plasma deposit --from alice ...".into());
    }
    let r = plasma_qa::run(&node, txs, connections.parse()?).await?;
    println!(
        "sent {} transactions in {:.1} s ({:.0}/s), {} refused; committed {} transfers in {} \
         blocks, {:.1} s after the first send: {:.0} transfers/s",
        r.sent,
        r.send_s,
        r.sent as f64 / r.send_s,
        r.refused,
        r.committed,
        r.blocks,
        r.total_s,
        r.committed as f64 / r.total_s
    );
    Ok(())
}
