//! What the commands of a user work with: configuration, node, contract, keys.

use std::path::Path;
use std::time::Duration;

use plasma_client::queries::CoinAnswer;
use plasma_client::rpc::{NodeClient, RpcError};
use plasma_client::wallet::{Keystore, check_devnet, devnet_accounts, devnet_key};
use plasma_core::coin::{CoinState, Deposit};
use plasma_core::domain::Domain;
use plasma_core::signature::SigningKey;
use plasma_core::state::Params;
use plasma_core::{Address, CoinId};
use plasma_rootchain::contract::{RootChain, RootChainContract};
use plasma_rootchain::ethereum::{At, EthError, Ethereum, Sender};

use crate::config::{self, Config};
use crate::ethereum::{eth_error, parse_address};
use crate::home::Home;
use crate::output::{CommandError, CommandResult, Exit};

/// Time limit of a call to the node.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// Home and configuration.
pub struct Context {
    /// The home.
    pub home: Home,
    /// Its configuration.
    pub config: Config,
}

/// A node's error as a command's.
pub fn rpc_error(error: RpcError) -> CommandError {
    let (exit, code, help) = match &error {
        RpcError::Unreachable { .. } => (Exit::Unreachable, "node_unreachable", "plasma devnet up"),
        RpcError::Query { .. } => (Exit::Failure, "query", "plasma --help"),
        _ => (Exit::Failure, "node", "plasma doctor"),
    };
    CommandError::new(exit, code, error, help)
}

impl Context {
    /// Reads the configuration of a home.
    pub fn load(home: Home) -> CommandResult<Self> {
        let config = config::load(&home.0)?;
        Ok(Self { home, config })
    }

    /// The node.
    pub fn node(&self) -> CommandResult<NodeClient> {
        NodeClient::new(&self.config.node.rpc, CALL_TIMEOUT).map_err(rpc_error)
    }

    /// The first endpoint of Ethereum.
    pub fn ethereum(&self) -> CommandResult<Ethereum> {
        let url = self.config.ethereum.rpc.first().map_or("", String::as_str);
        Ethereum::new(url).map_err(eth_error)
    }

    /// The contract.
    pub fn contract(&self) -> CommandResult<RootChainContract> {
        let address = parse_address(&self.config.ethereum.root_chain)?;
        Ok(RootChainContract { ethereum: self.ethereum()?, address })
    }

    /// The contract, after it has shown that it is a RootChain of Ethereum's chain at the
    /// configured address: whoever sends it money asks first.
    pub async fn checked_contract(&self) -> CommandResult<RootChainContract> {
        let contract = self.contract()?;
        let chain_id = contract.ethereum.chain_id().await.map_err(eth_error)?;
        let separator = RootChain::domainSeparatorCall {};
        match contract.read(separator, At::Latest).await {
            Ok(found) if found == Domain::new(chain_id, contract.address).separator => Ok(contract),
            Err(error @ (EthError::Unreachable { .. } | EthError::Rpc(_))) => Err(eth_error(error)),
            _ => {
                let message = format!("{} is no RootChain of chain {chain_id}", contract.address);
                Err(CommandError::usage(message, "correct [ethereum] root_chain or rpc"))
            }
        }
    }

    /// The node's parameters, checked against the configured contract.
    pub async fn params(&self, node: &NodeClient) -> CommandResult<Params> {
        let params = node.params().await.map_err(rpc_error)?;
        let configured = parse_address(&self.config.ethereum.root_chain)?;
        if params.root_chain == configured {
            return Ok(params);
        }
        let message =
            format!("the node's contract is {}, yours is {configured}", params.root_chain);
        Err(CommandError::usage(message, "correct [ethereum] root_chain or [node] rpc"))
    }

    /// The node's parameters, checked against Ethereum's chain id too: they are the domain of what
    /// is signed, and of what is verified.
    pub async fn checked_params(&self, node: &NodeClient) -> CommandResult<Params> {
        let params = self.params(node).await?;
        let chain_id = self.ethereum()?.chain_id().await.map_err(eth_error)?;
        if params.chain_id == chain_id {
            return Ok(params);
        }
        let message = format!("the node's chain id is {}, Ethereum's {chain_id}", params.chain_id);
        Err(CommandError::usage(message, "correct [node] rpc or [ethereum] rpc"))
    }

    /// The keystore.
    pub fn keystore(&self) -> Keystore {
        Keystore::new(&self.home.0.join("keystore"))
    }

    /// Refuses an account whose key everybody knows, unless this is the devnet's chain.
    async fn check_devnet(&self, account: Address) -> CommandResult<()> {
        if devnet_accounts().iter().all(|(_, known)| *known != account) {
            return Ok(());
        }
        let chain_id = self.ethereum()?.chain_id().await.map_err(eth_error)?;
        check_devnet(account, chain_id).map_err(wallet_error)
    }

    /// The key of a name: from the keystore, or a devnet account on the devnet's chain.
    pub async fn key(&self, name: &str, password: Option<&Path>) -> CommandResult<SigningKey> {
        let stored = self.keystore().names().map_err(wallet_error)?.contains(&name.to_owned());
        let key = match devnet_key(name).filter(|_| !stored) {
            Some(key) => key,
            None => {
                if !stored && name.parse::<Address>().is_err() {
                    let message = format!("there is no key {name:?}");
                    return Err(CommandError::usage(message, "plasma wallet list"));
                }
                let file = password.ok_or_else(|| {
                    let message = format!("key {name:?} needs its password");
                    CommandError::usage(message, "pass --password-file FILE")
                })?;
                let password = read_password(file)?;
                self.keystore().unlock(name, &password).map_err(wallet_error)?
            }
        };
        self.check_devnet(key.address()).await?;
        Ok(key)
    }

    /// An address: hex, a key of the keystore, or a devnet account on the devnet's chain.
    pub async fn address(&self, text: &str) -> CommandResult<Address> {
        let stored = self.keystore().list().map_err(wallet_error)?;
        let address = match stored.into_iter().find(|(name, _)| name == text) {
            Some((_, Some(address))) => address,
            Some((_, None)) => {
                let message = format!("the keystore file of {text:?} names no address");
                return Err(CommandError::usage(message, "pass the address"));
            }
            None => match devnet_accounts().into_iter().find(|(name, _)| *name == text) {
                Some((_, address)) => address,
                None => parse_receiver(text)?,
            },
        };
        self.check_devnet(address).await?;
        Ok(address)
    }

    /// Sends on Ethereum as a key.
    pub async fn sender(&self, key: &SigningKey) -> CommandResult<Sender> {
        Sender::new(self.ethereum()?, key).await.map_err(eth_error)
    }
}

/// An address in hex. Letters of both cases are a checksum (EIP-55), which must be right: a slip
/// in one digit would send a coin to nobody.
pub fn parse_receiver(text: &str) -> CommandResult<Address> {
    let address: Address = text.parse().map_err(|_| {
        let message = format!("{text:?} is neither an address nor a known account");
        CommandError::usage(message, "plasma wallet list")
    })?;
    let digits = text.trim_start_matches("0x");
    let mixed = digits.bytes().any(|b| b.is_ascii_uppercase())
        && digits.bytes().any(|b| b.is_ascii_lowercase());
    if mixed && address.to_checksum(None).trim_start_matches("0x") != digits {
        let message = format!("the checksum of address {text} is wrong (EIP-55)");
        return Err(CommandError::usage(message, "compare it, or write it in lower case"));
    }
    Ok(address)
}

/// 32 bytes in hex, with or without 0x.
pub fn parse_hash(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    hex::decode_to_slice(text.trim_start_matches("0x"), &mut hash).ok()?;
    Some(hash)
}

/// The first line of a password file.
pub fn read_password(file: &Path) -> CommandResult<String> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        CommandError::usage(format!("{}: {error}", file.display()), "check the path")
    })?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => {
            let message = format!("{}: its first line is empty", file.display());
            Err(CommandError::usage(message, "write a password into it"))
        }
    }
}

/// A keystore's error as a command's.
pub fn wallet_error(error: plasma_client::wallet::WalletError) -> CommandError {
    CommandError::usage(error, "plasma wallet list")
}

/// A coin as the node reports it, with its state. The node is not trusted: whoever acts on it
/// verifies it, here by the contract's refusal of a wrong exit.
pub struct KnownCoin {
    /// Its state.
    pub state: CoinState,
    /// The node's answer.
    pub answer: CoinAnswer,
}

/// Finds a coin at the node.
pub async fn find_coin(
    node: &NodeClient,
    params: &Params,
    coin: CoinId,
) -> CommandResult<KnownCoin> {
    let answer = node.coin(coin).await.map_err(rpc_error)?.ok_or_else(|| unknown_coin(coin))?;
    let state = match &answer {
        CoinAnswer::Record(record) => record.state(coin),
        CoinAnswer::Unmoved(deposit) => deposit.state(coin, &params.domain()),
    };
    Ok(KnownCoin { state, answer })
}

/// The error of a coin that the child chain does not know.
pub fn unknown_coin(coin: CoinId) -> CommandError {
    let message = format!("the child chain knows no coin {coin}");
    CommandError::no("not_found", message, "wait for finality, or plasma deposit")
}

/// The deposit of a coin in the contract.
pub async fn deposit_of(contract: &RootChainContract, coin: CoinId) -> CommandResult<Deposit> {
    let found = contract.deposit_of(coin, At::Latest).await.map_err(eth_error)?;
    found.ok_or_else(|| {
        let message = format!("no deposit on Ethereum created coin {coin}");
        CommandError::no("not_found", message, "plasma deposit --from alice --value 1ether")
    })
}

/// Shows that a call to Ethereum has another cause than the contract.
pub fn is_revert(error: &EthError, name: &str) -> bool {
    matches!(error, EthError::Reverted(found) if found == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_checksum_is_no_address() {
        let bob = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";
        for good in [bob, &bob.to_lowercase(), &bob[2..]] {
            assert_eq!(parse_receiver(good).unwrap(), bob.parse::<Address>().unwrap());
        }
        for bad in ["0x3C44CdDdB6a900fa2b585dd299e03d12FA4293Bc", "0x3C44", "bob", ""] {
            assert!(parse_receiver(bad).is_err(), "{bad}");
        }
    }
}
