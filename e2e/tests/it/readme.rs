//! The README's own commands, as a newcomer types them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use plasma_e2e::{Network, plasma};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
const SECTIONS: [&str; 2] = ["## Ten minutes with a devnet", "## Your own key"];

/// Commands and comments of a section's first block of code.
fn commands(section: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(README).unwrap();
    let (_, section) = text.split_once(section).unwrap_or_else(|| panic!("no {section}"));
    let lines = section.lines().skip_while(|line| !line.starts_with("    "));
    let block = lines.take_while(|line| line.starts_with("    "));
    let split = |line: &str| match line.split_once(" # ") {
        Some((command, comment)) => (command.trim().to_owned(), comment.trim().to_owned()),
        None => (line.trim().to_owned(), String::new()),
    };
    block.map(split).collect()
}

/// What the comment promises: `exit code N`, or success.
fn promised(comment: &str) -> i32 {
    comment.split_once("exit code ").map_or(0, |(_, code)| code.parse().unwrap())
}

#[test]
fn ten_minutes_with_a_devnet() {
    // The README starts it with scripts/devnet, which plays the demo first.
    let network = Network::start(&["--demo", "happy"]);
    let commands = SECTIONS.map(commands).concat();
    assert!(commands.len() >= 25, "{commands:?}");
    let port = format!("localhost:{}", network.port(0));
    let program = plasma().canonicalize().unwrap();
    let directory = program.parent().and_then(Path::to_str).unwrap();
    let tools = concat!(env!("CARGO_MANIFEST_DIR"), "/../.tools/bin");
    let path = format!("{directory}:{tools}:{}", std::env::var("PATH").unwrap());
    let ethereum = network.description()["ethereum"].as_str().unwrap().to_owned();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for (command, comment) in commands {
        if comment.contains("until it is on Ethereum") {
            let coin = names.get("MINE").unwrap_or_else(|| &names["COIN"]);
            network.await_root(coin.parse().unwrap());
        }
        let mut shell = Command::new("bash");
        let mut line = command.replace("localhost:26657", &port);
        // Each line has a shell of its own; what it assigns is kept for the next.
        let assigned = command.split_once("=$(").map(|(name, _)| name);
        let name = assigned.filter(|name| name.chars().all(char::is_uppercase));
        if let Some(name) = name {
            line += &format!("; rc=$?; echo ${name}; exit $rc");
        }
        shell.args(["-o", "pipefail", "-c", &line]);
        shell.env("PATH", &path).env("PLASMA_HOME", network.dir()).env("ETH_RPC_URL", &ethereum);
        shell.current_dir(network.dir());
        shell.envs(&names);
        let output = shell.output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(promised(&comment)),
            "{command} # {comment}\n{stdout}\n{stderr}"
        );
        if let Some(name) = name {
            names.insert(name.to_owned(), stdout.trim().to_owned());
        }
        if command.starts_with("curl \"") {
            assert!(stdout.contains("\"code\":0"), "{command}: {stdout}");
        }
    }
    network.assert_same_app_hashes();
}
