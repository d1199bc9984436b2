//! Transfers signed over whatever a node says, as no honest owner signs: not his coins, or several
//! transfers of one coin. `plasma transfer` refuses to.

use base64::Engine;
use plasma_client::wallet::devnet_key;
use plasma_core::Address;
use plasma_core::coin::CoinState;
use plasma_core::state::{
    COIN_PREFIX, CoinRecord, DEPOSIT_PREFIX, Params, decode_deposit, key_number,
};
use plasma_core::transfer::{Transfer, WireTransfer};
use plasma_core::tx::Tx;
use plasma_e2e::Network;

/// Key and value that node 0 answers to a query.
fn query(network: &Network, path: &str) -> (Vec<u8>, Vec<u8>) {
    let answer = network.rpc(0, &format!("abci_query?path=\"{path}\""));
    let field = |name: &str| {
        let text = answer["response"][name].as_str().unwrap_or_default();
        base64::engine::general_purpose::STANDARD.decode(text).unwrap()
    };
    (field("key"), field("value"))
}

fn state(network: &Network, params: &Params, coin: u64) -> CoinState {
    let (key, value) = query(network, &format!("/coin/{coin}"));
    if key_number(&key, COIN_PREFIX) == Some(coin) {
        return CoinRecord::decode(&value).unwrap().state(coin);
    }
    let deposit = key_number(&key, DEPOSIT_PREFIX).expect("the coin exists");
    decode_deposit(deposit, &value).unwrap().state(coin, &params.domain())
}

fn transfer(network: &Network, coin: u64, from: &str, to: &str, max_block: u64) -> WireTransfer {
    let params = Params::decode(&query(network, "/params").1).unwrap();
    let to: Address = match devnet_key(to) {
        Some(key) => key.address(),
        None => to.parse().unwrap(),
    };
    let state = state(network, &params, coin);
    let key = devnet_key(from).unwrap();
    Transfer::spending(&state, to, max_block).sign(&key, &params.domain()).wire()
}

/// `0x` and the bytes of a transaction that moves one coin to an account or address.
pub fn single(network: &Network, coin: u64, from: &str, to: &str, max_block: u64) -> String {
    let transfer = transfer(network, coin, from, to, max_block);
    format!("0x{}", hex::encode(Tx::Transfer(transfer).encode()))
}

/// The same for several coins, ascending.
pub fn bundle(network: &Network, coins: &[u64], from: &str, to: &str, max_block: u64) -> String {
    let members = coins.iter().map(|coin| transfer(network, *coin, from, to, max_block));
    format!("0x{}", hex::encode(Tx::Bundle(members.collect()).encode()))
}
