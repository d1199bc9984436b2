//! `plasma block`.

use plasma_rootchain::ethereum::At;
use serde_json::json;

use crate::cli::Block;
use crate::context::{Context, rpc_error};
use crate::ethereum::eth_error;
use crate::output::{CommandError, CommandResult, Output};

/// Runs it.
pub async fn run(context: &Context, command: &Block, output: &Output) -> CommandResult<()> {
    let Block::Show { number } = command;
    let node = context.node()?;
    let tip = node.tip().await.map_err(rpc_error)?;
    let number = number.unwrap_or(tip.last_closed);
    if number != 0 && number == tip.open {
        let text = format!("block {number}\nstate open, {} transfers", tip.open_count);
        let data = json!({"block": number, "state": "open", "transfers": tip.open_count});
        output.result(text, data);
        return Ok(());
    }
    let block = node.block(number).await.map_err(rpc_error)?.ok_or_else(|| {
        let message = format!("there is no plasma block {number}");
        CommandError::no("not_found", message, "plasma block show")
    })?;
    let contract = context.contract()?;
    let finalized = contract.root(number, At::Finalized).await.map_err(eth_error)?;
    let latest = contract.root(number, At::Latest).await.map_err(eth_error)?;
    let state = match (latest, finalized) {
        (_, Some(_)) => "finalized",
        (Some(_), None) => "on Ethereum",
        _ if number <= tip.last_certified => "certified",
        _ => "closed",
    };
    if latest.is_some_and(|root| root != block.root) {
        let message = format!("block {number}: Ethereum has root {latest:?}, the node another");
        return Err(CommandError::no("root", message, "do not trust this node"));
    }
    let validators = node.validators().await.map_err(rpc_error)?;
    let certificate = node.certificate_from(number, validators.len()).await.map_err(rpc_error)?;
    let signers: Vec<usize> =
        certificate.iter().flat_map(|c| c.signed().map(|(i, _)| i).collect::<Vec<_>>()).collect();
    let certified_by = certificate.as_ref().map(|c| c.number);
    let certified = certified_by.map_or_else(
        || "none yet".into(),
        |by| format!("of block {by}, signed by validators {signers:?}"),
    );
    let text = format!(
        "block       {number}\nstate       {state}\nroot        {}\nchain hash  {}\n\
         closed at   height {}\ncertificate {certified}",
        block.root, block.chain_hash, block.height
    );
    let data = json!({"block": number, "state": state, "root": block.root,
                      "chain_hash": block.chain_hash, "height": block.height,
                      "certificate": certified_by, "signers": signers,
                      "ethereum_root": latest});
    output.result(text, data);
    Ok(())
}
