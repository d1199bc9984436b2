//! `plasma doctor`.

use serde_json::json;

use crate::cometbft::{check_config, find_program};
use crate::context::Context;
use crate::output::{CommandError, CommandResult, Output};
use crate::start::check_room;

/// Lists what is missing and the command that cures it.
pub async fn run(context: &Context, output: &Output) -> CommandResult<()> {
    let mut found = Vec::new();
    let mut wrong = Vec::new();
    let mut judge = |what: &str, result: Result<String, String>, cure: &str| match result {
        Ok(text) => found.push(format!("ok    {what}: {text}")),
        Err(text) => wrong.push(format!("{what}: {text}\n       cure: {cure}")),
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
    if context.home.0.exists() {
        let room = check_room(&context.home).map(|()| "not full".into());
        judge("disk", room.map_err(|error| error.message), "make room");
    }
    let ethereum = match context.ethereum() {
        Ok(ethereum) => ethereum.chain_id().await.map_err(|error| error.to_string()),
        Err(error) => Err(error.message),
    };
    let reached = ethereum.is_ok();
    judge("ethereum", ethereum.map(|id| format!("chain {id}")), "plasma devnet up");
    if reached && !context.config.ethereum.root_chain.is_empty() {
        let contract = context.checked_contract().await;
        let shown = contract.map(|contract| contract.address.to_string());
        judge("contract", shown.map_err(|e| e.message), "correct [ethereum] root_chain");
    }
    let node = match context.node() {
        Ok(node) => node.status().await.map_err(|error| error.to_string()),
        Err(error) => Err(error.message),
    };
    judge("node", node.map(|(height, _)| format!("height {height}")), "plasma devnet up");
    if wrong.is_empty() {
        output.result(found.join("\n"), json!({"found": found}));
        return Ok(());
    }
    output.note(found.join("\n"));
    Err(CommandError::failure("doctor", wrong.join("\n"), "the cures above, then again"))
}
