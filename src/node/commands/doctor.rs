//! `plasma doctor`.

use serde_json::json;

use crate::cometbft::{check_config, find_program};
use crate::context::Context;
use crate::output::{CommandError, CommandResult, Output};

/// Lists what is missing and the command that cures it.
pub async fn run(context: &Context, output: &Output) -> CommandResult<()> {
    let mut found = Vec::new();
    let mut wrong = Vec::new();
    let mut judge = |what: &str, result: Result<String, String>, cure: &str| match result {
        Ok(text) => found.push(format!("ok    {what}: {text}")),
        Err(text) => wrong.push(format!("wrong {what}: {text}\n      cure: {cure}")),
    };
    for (variable, name) in [("PLASMA_COMETBFT", "cometbft"), ("PLASMA_ANVIL", "anvil")] {
        let path = find_program(variable, name).map(|path| path.display().to_string());
        judge(name, path.map_err(|error| error.message), "./scripts/setup");
    }
    let cometbft = context.home.cometbft();
    if cometbft.join("config/config.toml").exists() {
        let checked = match check_config(&cometbft) {
            Ok(wrong) if wrong.is_empty() => Ok("required values are set".into()),
            Ok(wrong) => Err(wrong.join("; ")),
            Err(error) => Err(error.message),
        };
        judge("config.toml", checked, "plasma init");
    }
    let ethereum = match context.ethereum() {
        Ok(ethereum) => ethereum.chain_id().await.map(|id| format!("chain {id}")),
        Err(error) => {
            judge("ethereum", Err(error.message), "correct [ethereum] rpc");
            Ok(String::new())
        }
    };
    judge("ethereum", ethereum.map_err(|e| e.to_string()), "plasma devnet up");
    let node = match context.node() {
        Ok(node) => node.status().await.map(|(height, _)| format!("height {height}")),
        Err(error) => return Err(error),
    };
    judge("node", node.map_err(|e| e.to_string()), "plasma devnet up");
    let text = [found.clone(), wrong.clone()].concat().join("\n");
    if wrong.is_empty() {
        output.result(text, json!({"found": found}));
        return Ok(());
    }
    let help = "the cures above, then again";
    Err(CommandError::failure("doctor", text, help))
}
