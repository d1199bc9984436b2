//! `plasma proof`.

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use plasma_client::rpc::{NodeClient, QueryAnswer};
use plasma_core::state::{COIN_PREFIX, DEPOSIT_PREFIX, decode_deposit, key_number};
use plasma_store::Commitment;
use serde_json::json;

use crate::cli::Proof;
use crate::context::{Context, parse_hash, rpc_error};
use crate::output::{CommandError, CommandResult, Output};

/// Most bytes of a proof document.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;

/// How long the next header may take.
const HEADER_MAX: Duration = Duration::from_secs(20);

/// Runs it.
pub async fn run(context: &Context, command: &Proof, output: &Output) -> CommandResult<()> {
    let Proof::Verify { file, app_hash } = command;
    let answer = read(file)?;
    let commitment = match app_hash {
        Some(digits) => decode_hash(digits)?,
        None => {
            let hash = next_app_hash(&context.node()?, answer.height).await?;
            output.note("the app hash is the node's own word: for certainty pass --app-hash");
            decode_hash(&hex::encode(hash))?
        }
    };
    let shown = verify(&answer, commitment).map_err(|message| {
        CommandError::no("proof_invalid", message, "ask again, or another node")
    })?;
    let text = format!("valid: {shown}, at height {} under app hash {commitment}", answer.height);
    let data = json!({"shown": shown, "height": answer.height, "app_hash": commitment.to_string(),
                      "key": hex::encode(&answer.key), "value": hex::encode(&answer.value)});
    output.result(text, data);
    Ok(())
}

/// The app hash that commits to the state of `height`: in the next header, which the chain may
/// still be making.
async fn next_app_hash(node: &NodeClient, height: u64) -> CommandResult<Vec<u8>> {
    let deadline = Instant::now() + HEADER_MAX;
    while node.status().await.map_err(rpc_error)?.0 <= height && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    node.app_hash(height + 1).await.map_err(rpc_error)
}

fn read(file: &Path) -> CommandResult<QueryAnswer> {
    let bad = |error: &dyn std::fmt::Display| {
        let message = format!("{}: {error}", file.display());
        CommandError::usage(message, "plasma proof verify --help")
    };
    let mut text = String::new();
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(file).map_err(|error| bad(&error))?)
    };
    source.take(DOCUMENT_BYTES_MAX).read_to_string(&mut text).map_err(|error| bad(&error))?;
    let json: serde_json::Value = serde_json::from_str(&text).map_err(|error| bad(&error))?;
    let answer = QueryAnswer::parse(&json).map_err(|error| bad(&error))?;
    if answer.code != 0 || answer.proof.is_empty() {
        return Err(bad(&"an answer without a proof; query with prove=true"));
    }
    Ok(answer)
}

fn decode_hash(digits: &str) -> CommandResult<Commitment> {
    parse_hash(digits).map(Commitment).ok_or_else(|| {
        CommandError::usage("an app hash has 64 hex digits", "plasma proof verify --help")
    })
}

/// One operation shows the key's value; a second one that a coin of that deposit has no key of its
/// own. Says what is shown: the document itself does not say what was asked.
fn verify(answer: &QueryAnswer, commitment: Commitment) -> Result<String, String> {
    let check = |op: &plasma_client::rpc::ProofOp, value: Option<&[u8]>| {
        let scheme = op.kind.strip_prefix("plasma/").ok_or_else(|| op.kind.clone())?;
        plasma_store::verify(scheme, commitment, &op.key, value, &op.data)
            .map_err(|error| error.to_string())
    };
    match &answer.proof[..] {
        [own] if own.key == answer.key => {
            check(own, Some(&answer.value))?;
            Ok(format!("key {}", hex::encode(&own.key)))
        }
        [own, absent] if own.key == answer.key => {
            let coin = key_number(&absent.key, COIN_PREFIX)
                .ok_or("the second operation is not of a coin's key")?;
            let deposit = key_number(&own.key, DEPOSIT_PREFIX)
                .and_then(|id| decode_deposit(id, &answer.value).ok())
                .ok_or("the first operation is not of a deposit")?;
            if !deposit.contains(coin) {
                return Err(format!("coin {coin} is not of deposit {}", deposit.deposit_id));
            }
            check(own, Some(&answer.value))?;
            check(absent, None)?;
            Ok(format!("coin {coin}, not moved since deposit {}", deposit.deposit_id))
        }
        _ => Err("the operations are not of the answer's key".into()),
    }
}
