//! Deposits, exits and refusals through the bindings.

use plasma_client::wallet::devnet_key;
use plasma_core::coin::asset;
use plasma_core::{Address, U256};
use plasma_rootchain::contract::{
    ExitStart, RootChain, TestERC20, TestERC721, TestERC1155, call_contract, deploy_code,
};
use plasma_rootchain::ethereum::{At, EthError, Ethereum};
use serde_json::json;

use crate::anvil::Anvil;
use crate::chain::validators;

fn number(value: u64) -> U256 {
    U256::from(value)
}

#[tokio::test]
async fn every_kind_of_asset_is_deposited() {
    let anvil = Anvil::start();
    let (contract, _) = anvil.deploy(&validators().0).await;
    let (alice, to) = (anvil.sender("alice").await, contract.address);
    let no_token = (Address::ZERO, U256::ZERO);
    let eth = contract.make_deposit(&alice, asset::ETH, no_token, number(5), 1_000).await.unwrap();
    assert_eq!(eth, (1, 1_000));

    let (erc20, _) = deploy_code(&alice, &TestERC20::BYTECODE, &[]).await.unwrap();
    let mint = TestERC20::mintCall { to: alice.address(), value: number(100) };
    call_contract(&alice, erc20, mint).await.unwrap();
    let token = (erc20, U256::ZERO);
    // Nothing is pulled without an approval.
    let early = contract.make_deposit(&alice, asset::ERC20, token, number(10), 4).await;
    assert!(matches!(early, Err(EthError::Reverted(_))), "{early:?}");
    let approve = TestERC20::approveCall { spender: to, value: number(40) };
    call_contract(&alice, erc20, approve).await.unwrap();
    let coins = contract.make_deposit(&alice, asset::ERC20, token, number(10), 4).await.unwrap();
    assert_eq!(coins, (1_001, 4));

    let (erc721, _) = deploy_code(&alice, &TestERC721::BYTECODE, &[]).await.unwrap();
    let mint = TestERC721::mintCall { to: alice.address(), id: number(7) };
    call_contract(&alice, erc721, mint).await.unwrap();
    let approve = TestERC721::approveCall { to, tokenId: number(7) };
    call_contract(&alice, erc721, approve).await.unwrap();
    let token = (erc721, number(7));
    let coins = contract.make_deposit(&alice, asset::ERC721, token, number(1), 1).await.unwrap();
    assert_eq!(coins, (1_005, 1));

    let (erc1155, _) = deploy_code(&alice, &TestERC1155::BYTECODE, &[]).await.unwrap();
    let mint = TestERC1155::mintCall { to: alice.address(), id: number(9), value: number(6) };
    call_contract(&alice, erc1155, mint).await.unwrap();
    let approve = TestERC1155::setApprovalForAllCall { operator: to, approved: true };
    call_contract(&alice, erc1155, approve).await.unwrap();
    let token = (erc1155, number(9));
    let coins = contract.make_deposit(&alice, asset::ERC1155, token, number(2), 3).await.unwrap();
    assert_eq!(coins, (1_006, 3));

    let deposit = contract.deposit(4, At::Latest).await.unwrap().unwrap();
    assert_eq!((deposit.first_coin, deposit.count, deposit.owner), (1_006, 3, alice.address()));
    assert_eq!((deposit.asset_kind, deposit.token), (asset::ERC1155, erc1155));
    assert_eq!((deposit.token_id, deposit.value), (number(9), number(2)));
    for (coin, id) in [(1, 1), (1_000, 1), (1_001, 2), (1_004, 2), (1_005, 3), (1_008, 4)] {
        let found = contract.deposit_of(coin, At::Latest).await.unwrap();
        assert_eq!(found.map(|deposit| deposit.deposit_id), Some(id), "coin {coin}");
    }
    for coin in [0, 1_009] {
        assert_eq!(contract.deposit_of(coin, At::Latest).await.unwrap(), None, "coin {coin}");
    }
    assert_eq!(contract.deposit(5, At::Latest).await.unwrap(), None);
    assert_eq!(contract.queue(At::Latest).await.unwrap().0, 4);
}

#[tokio::test]
async fn a_deposited_coin_exits() {
    let anvil = Anvil::start();
    let (contract, _) = anvil.deploy(&validators().0).await;
    let alice = anvil.sender("alice").await;
    let token = (Address::ZERO, U256::ZERO);
    contract.make_deposit(&alice, asset::ETH, token, number(5), 3).await.unwrap();

    let mallory = anvil.sender("mallory").await;
    let start = ExitStart { coin: 2, deposit_id: 1, transfer: None, authorization: None, hint: 0 };
    let stolen = contract.start_exit(&mallory, &start).await;
    assert!(matches!(&stolen, Err(EthError::Reverted(name)) if name == "NotAuthorised"));
    let exit = contract.start_exit(&alice, &start).await.unwrap();
    let coin = contract.coin(2, 1, At::Latest).await.unwrap();
    assert_eq!((coin.status, coin.open.len(), coin.open[0].id), (0, 1, exit));

    let early = contract.finalize(&alice, 2).await;
    assert!(matches!(&early, Err(EthError::Reverted(name)) if name == "TooEarly"), "{early:?}");
    anvil.call("evm_increaseTime", json!([1_001])).await;
    anvil.mine(1).await;
    contract.finalize(&alice, 2).await.unwrap();
    assert_eq!(contract.coin(2, 1, At::Latest).await.unwrap().status, 1);
    contract.withdraw(&alice, 2).await.unwrap();
    assert_eq!(contract.coin(2, 1, At::Latest).await.unwrap().status, 2);
    // The bond is zero here.
    assert!(!contract.withdraw_credits(&alice).await.unwrap());
    let credits = contract.read(RootChain::lastExitCall {}, At::Latest).await.unwrap();
    assert_eq!(credits, 1);
}

fn deposit_exit(coin: u64) -> ExitStart {
    ExitStart { coin, deposit_id: 1, transfer: None, authorization: None, hint: 0 }
}

/// More coins than one transaction takes.
#[tokio::test]
async fn many_coins_exit_together() {
    let anvil = Anvil::start();
    let (contract, _) = anvil.deploy(&validators().0).await;
    let alice = anvil.sender("alice").await;
    let token = (Address::ZERO, U256::ZERO);
    contract.make_deposit(&alice, asset::ETH, token, number(5), 200).await.unwrap();
    let exits: Vec<ExitStart> = (1..=130).map(deposit_exit).collect();
    let mut opened = Vec::new();
    let done = contract.start_exits(&alice, &exits, |ids| opened.push(ids.to_vec())).await;
    done.unwrap();
    assert_eq!(opened.iter().map(Vec::len).collect::<Vec<_>>(), [64, 64, 2]);
    assert_eq!(opened.concat(), (1..=130).map(|id| (id, id)).collect::<Vec<_>>());
    // A second exit of the first coin of the second transaction: the first one stands.
    let again: Vec<ExitStart> = (131..=194).chain([1]).map(deposit_exit).collect();
    let mut opened = 0;
    let failed = contract.start_exits(&alice, &again, |ids| opened += ids.len()).await;
    assert!(matches!(&failed, Err(EthError::Reverted(name)) if name == "ExitExists"));
    assert_eq!(opened, 64);

    anvil.call("evm_increaseTime", json!([1_001])).await;
    anvil.mine(1).await;
    let coins: Vec<u64> = (1..=130).collect();
    let with_others = [&coins[..], &[199, 200]].concat();
    assert_eq!(contract.finalize_many(&alice, &with_others).await.unwrap(), coins);
    assert!(contract.finalize_many(&alice, &with_others).await.unwrap().is_empty());
    let early = contract.withdraw_many(&alice, &[1, 2, 200]).await;
    assert!(matches!(&early, Err(EthError::Reverted(name)) if name == "NotExited"), "{early:?}");
    contract.withdraw_many(&alice, &coins).await.unwrap();
    for coin in [1, 130] {
        assert_eq!(contract.coin(coin, 1, At::Latest).await.unwrap().status, 2);
    }
    assert_eq!(contract.evidence(1, 0).await.unwrap(), [], "a deposit exit shows no transfer");
}

#[tokio::test]
async fn errors_tell_what_happened() {
    let key = devnet_key("alice").unwrap();
    assert!(matches!(Ethereum::new("no url"), Err(EthError::Url(_))));
    let mut anvil = Anvil::start();
    let (contract, _) = anvil.deploy(&validators().0).await;
    let nowhere = contract.last_block(At::Number(1_000_000)).await;
    assert!(matches!(nowhere, Err(EthError::Rpc(_))), "{nowhere:?}");
    anvil.stop();
    let away = plasma_rootchain::ethereum::Sender::new(anvil.ethereum(), &key).await;
    assert!(matches!(away, Err(EthError::Unreachable { .. })));
}
