//! The operator as a thief: it certifies plasma blocks that the child chain never made, with the
//! root keys of the devnet's own validators.

use plasma_client::challenge::Inclusion;
use plasma_core::block::{block_root, chain_hash};
use plasma_core::certificate::{Certificate, attestation_digest};
use plasma_core::domain::Domain;
use plasma_core::signature::SigningKey;
use plasma_core::smt::{Leaf, prove, root_of};
use plasma_core::transfer::SignedTransfer;
use plasma_core::validators::ValidatorSet;
use plasma_core::{B256, BlockNumber};
use plasma_rootchain::contract::{RootChain, RootChainContract, Submission};
use plasma_rootchain::ethereum::{At, Sender};

use super::account;
use super::stage::{Stage, lost};
use crate::context::rpc_error;
use crate::devnet::describe;
use crate::ethereum::eth_error;
use crate::home::Home;
use crate::output::CommandResult;

/// Who holds more than two thirds of the root keys.
pub struct Operator {
    contract: RootChainContract,
    domain: Domain,
    set: ValidatorSet,
    /// By the set's index.
    keys: Vec<(usize, SigningKey)>,
    sender: Sender,
}

impl Operator {
    /// Takes the root keys from the homes of the stage's validators: as few as make a certificate.
    pub async fn new(stage: &Stage<'_>) -> CommandResult<Self> {
        let set = stage.node.validators().await.map_err(rpc_error)?;
        let mut keys = Vec::new();
        for node in describe(&stage.context.home.0)?.nodes {
            let path = Home(node.home).resolve("config/root_key");
            let text = std::fs::read_to_string(&path).map_err(lost)?;
            let mut bytes = [0; 32];
            hex::decode_to_slice(text.trim(), &mut bytes).map_err(lost)?;
            let key = SigningKey::from_bytes(bytes).map_err(lost)?;
            let found = set.validators().iter().position(|v| v.root_key == key.address());
            keys.push((found.ok_or_else(|| lost("a root key is in no validator set"))?, key));
        }
        keys.sort_by_key(|(index, _)| *index);
        keys.truncate(set.len() * 2 / 3 + 1);
        let sender = stage.context.sender(&account("operator")?).await?;
        let (contract, domain) = (stage.contract.clone(), stage.params.domain());
        Ok(Self { contract, domain, set, keys, sender })
    }

    /// Number of the next block.
    pub async fn next_block(&self) -> CommandResult<BlockNumber> {
        Ok(self.contract.last_block(At::Latest).await.map_err(eth_error)? + 1)
    }

    /// Certifies a block with this transfer and stores its root on Ethereum. The proof is the
    /// operator's secret.
    pub async fn forge(&self, transfer: SignedTransfer) -> CommandResult<Inclusion> {
        let coin = transfer.transfer.coin;
        let mut leaves = vec![Leaf { coin, hash: transfer.transfer.digest(&self.domain) }];
        // Another coin's leaf, as in any real block.
        leaves.push(Leaf { coin: coin ^ 1, hash: B256::repeat_byte(1) });
        leaves.sort_unstable_by_key(Leaf::path);
        let root = block_root(root_of(&leaves));
        let block = self.next_block().await?;
        let previous = self.contract.read(RootChain::chainHashCall {}, At::Latest).await;
        let hash = chain_hash(previous.map_err(eth_error)?, block, root);
        let digest = attestation_digest(&self.domain, block, hash, self.set.id());
        let signed: Vec<_> = self.keys.iter().map(|(i, key)| (*i, key.sign(digest))).collect();
        let submission = Submission {
            first: block,
            roots: vec![root],
            set: self.set.encode(),
            certificate: Certificate::new(block, self.set.len(), &signed),
        };
        let transaction = self.contract.submission(&submission);
        self.sender.send(transaction).await.map_err(eth_error)?;
        Ok(Inclusion { block, transfer, proof: prove(&leaves, coin) })
    }
}
