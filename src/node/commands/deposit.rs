//! `plasma deposit`.

use std::time::{Duration, Instant};

use plasma_core::coin::asset;
use plasma_core::{Address, CoinId, U256};
use plasma_rootchain::contract::{TestERC20, TestERC721, TestERC1155, call_contract};
use plasma_rootchain::ethereum::Sender;
use serde_json::json;

use crate::cli::{AssetName, Deposit};
use crate::context::{Context, rpc_error};
use crate::devnet::describe;
use crate::ethereum::eth_error;
use crate::output::{CommandError, CommandResult, Exit, Output};

/// How long `--wait` waits: finality on a public network takes a quarter of an hour.
const WAIT_MAX: Duration = Duration::from_secs(1_800);

/// Runs it.
pub async fn run(context: &Context, args: &Deposit, output: &Output) -> CommandResult<()> {
    let value = check_options(args)?;
    let id = args
        .id
        .as_deref()
        .unwrap_or("0")
        .parse::<U256>()
        .map_err(|_| CommandError::usage("--id is no number", "plasma deposit --help"))?;
    let key = context.key(&args.from.from, args.from.password_file.as_deref()).await?;
    let sender = context.sender(&key).await?;
    let contract = context.checked_contract().await?;
    let (kind, name) = match args.asset {
        AssetName::Eth => (asset::ETH, ""),
        AssetName::Erc20 => (asset::ERC20, "erc20"),
        AssetName::Erc721 => (asset::ERC721, "erc721"),
        AssetName::Erc1155 => (asset::ERC1155, "erc1155"),
    };
    let token = token_address(context, args, name)?;
    if kind != asset::ETH {
        let sum = value.saturating_mul(U256::from(args.count));
        if args.mint {
            mint(&sender, kind, token, id, sum).await?;
        }
        approve(&sender, kind, token, id, sum, contract.address).await?;
    }
    let made = contract.make_deposit(&sender, kind, (token, id), value, args.count).await;
    let (first, count) = made.map_err(eth_error)?;
    let last = first + u64::from(count) - 1;
    if args.wait {
        wait_for(context, last).await?;
    } else {
        output.note("pending until Ethereum's finality and the validators' agreement: coin show");
    }
    let ids: Vec<String> = (first..=last).map(|coin| coin.to_string()).collect();
    output.result(ids.join("\n"), json!({"first_coin": first, "count": count}));
    Ok(())
}

/// The value of each coin; refuses options that would mean nothing for the asset.
fn check_options(args: &Deposit) -> CommandResult<U256> {
    let refuse = |what: &str| Err(CommandError::usage(what, "plasma deposit --help"));
    let value = match (&args.value, args.asset) {
        (Some(_), AssetName::Erc721) => return refuse("an NFT has no --value"),
        (Some(value), _) => parse_value(value)?,
        (None, AssetName::Erc721) => U256::ONE,
        (None, _) => return refuse("--value is needed"),
    };
    if value.is_zero() {
        return refuse("--value must be above zero");
    }
    if args.asset == AssetName::Erc721 && args.count != 1 {
        return refuse("an NFT is one coin: no --count");
    }
    if matches!(args.asset, AssetName::Erc721 | AssetName::Erc1155) && args.id.is_none() {
        return refuse("which token? --id");
    }
    if args.asset == AssetName::Eth && (args.mint || args.id.is_some() || args.token.is_some()) {
        return refuse("--mint, --id and --token are of tokens: pass --asset");
    }
    if args.asset == AssetName::Erc20 && args.id.is_some() {
        return refuse("an ERC-20 token has no --id");
    }
    Ok(value)
}

/// Waits until the child chain has a coin.
pub async fn wait_for(context: &Context, coin: CoinId) -> CommandResult<()> {
    let node = context.node()?;
    let deadline = Instant::now() + WAIT_MAX;
    while node.tip().await.map_err(rpc_error)?.last_coin < coin {
        if Instant::now() > deadline {
            let message = format!("coin {coin} has not arrived within {WAIT_MAX:?}");
            return Err(CommandError::failure("timeout", message, "plasma coin show"));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

fn token_address(context: &Context, args: &Deposit, name: &str) -> CommandResult<Address> {
    if name.is_empty() {
        return Ok(Address::ZERO);
    }
    let text = match &args.token {
        Some(token) => token.clone(),
        None => describe(&context.home.0)?.tokens.get(name).cloned().unwrap_or_default(),
    };
    text.parse().map_err(|_| {
        CommandError::usage(format!("--token {text:?} is no address"), "plasma deposit --help")
    })
}

async fn mint(sender: &Sender, kind: u8, token: Address, id: U256, sum: U256) -> CommandResult<()> {
    let to = sender.address();
    let done = match kind {
        asset::ERC20 => call_contract(sender, token, TestERC20::mintCall { to, value: sum }).await,
        asset::ERC721 => call_contract(sender, token, TestERC721::mintCall { to, id }).await,
        _ => {
            let call = TestERC1155::mintCall { to, id, value: sum };
            call_contract(sender, token, call).await
        }
    };
    done.map_err(eth_error)
}

async fn approve(
    sender: &Sender,
    kind: u8,
    token: Address,
    id: U256,
    sum: U256,
    contract: Address,
) -> CommandResult<()> {
    let done = match kind {
        asset::ERC20 => {
            let call = TestERC20::approveCall { spender: contract, value: sum };
            call_contract(sender, token, call).await
        }
        asset::ERC721 => {
            let call = TestERC721::approveCall { to: contract, tokenId: id };
            call_contract(sender, token, call).await
        }
        _ => {
            let call = TestERC1155::setApprovalForAllCall { operator: contract, approved: true };
            call_contract(sender, token, call).await
        }
    };
    done.map_err(eth_error)
}

/// Wei of `1.5ether`, `3gwei`, or a bare number.
pub fn parse_value(text: &str) -> CommandResult<U256> {
    let bad = || {
        let message = format!("{text:?} is no value like 1ether, 0.5ether, 3gwei or 1000");
        CommandError::new(Exit::Usage, "usage", message, "plasma deposit --help")
    };
    let (digits, decimals) = match (text.strip_suffix("ether"), text.strip_suffix("gwei")) {
        (Some(digits), _) => (digits, 18),
        (_, Some(digits)) => (digits, 9),
        _ => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) || fraction.len() > decimals
    {
        return Err(bad());
    }
    let padded = format!("{whole}{fraction:0<decimals$}");
    U256::from_str_radix(&padded, 10).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units() {
        let wei = |text| parse_value(text).map(|v| v.to_string()).map_err(|_| ());
        assert_eq!(wei("1ether").as_deref(), Ok("1000000000000000000"));
        assert_eq!(wei("0.5ether").as_deref(), Ok("500000000000000000"));
        assert_eq!(wei("3gwei").as_deref(), Ok("3000000000"));
        assert_eq!(wei("17").as_deref(), Ok("17"));
        for bad in ["", "ether", "1.5", "-1", "1,5ether", "0.0000000001gwei", "0x10"] {
            assert_eq!(wei(bad), Err(()), "{bad}");
        }
    }
}
