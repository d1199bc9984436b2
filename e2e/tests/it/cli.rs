//! Exit codes, the form of answers, and what is said about mistakes.

use std::fs;
use std::net::TcpListener;

use plasma_e2e::{Answer, run};
use tempfile::TempDir;

/// A home whose node and Ethereum are ports where nobody listens.
fn home(extra: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("config")).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = format!(
        "[node]\nrpc = \"http://{free}\"\n{extra}\n[ethereum]\nrpc = [\"http://{free}\"]\n\
         root_chain = \"0x5FbDB2315678afecb367f032d93F642f64180aa3\"\n"
    );
    fs::write(dir.path().join("config/plasma.toml"), text).unwrap();
    dir
}

fn plasma(home: &TempDir, line: &str) -> Answer {
    let mut args = vec!["--home", home.path().to_str().unwrap()];
    args.extend(line.split_whitespace());
    run(&args, "")
}

#[test]
fn exit_codes() {
    let home = home("");
    let version = plasma(&home, "--version");
    assert_eq!(version.code, 0, "{version:?}");
    assert!(version.stdout.starts_with("plasma "), "{version:?}");

    fs::write(home.path().join("file"), "").unwrap();
    let file = home.path().join("file");
    let failure = plasma(&home, &format!("--json devnet up --dir {}", file.display()));
    assert_eq!(failure.code, 1, "{failure:?}");
    assert_eq!(failure.error()["code"], "devnet");

    let no = plasma(&home, "--json devnet status");
    assert_eq!(no.code, 3, "{no:?}");
    assert_eq!(no.error()["help"], "plasma devnet up");

    let unreachable = plasma(&home, "--json coin show 1");
    assert_eq!(unreachable.code, 4, "{unreachable:?}");
    assert_eq!(unreachable.error()["code"], "node_unreachable");
    let plain = plasma(&home, "coin show 1");
    assert_eq!((plain.code, plain.stdout.as_str()), (4, ""), "{plain:?}");
    assert!(plain.stderr.contains("try: plasma devnet up"), "{plain:?}");
}

#[test]
fn unknown_commands_and_keys_are_explained() {
    let home1 = home("");
    let answer = plasma(&home1, "exti list 1");
    assert_eq!((answer.code, answer.stdout.as_str()), (2, ""), "{answer:?}");
    assert!(answer.stderr.contains("did you mean `exit`?"), "{answer:?}");
    let answer = plasma(&home1, "--json transfer 1 --form alice --to bob");
    assert_eq!(answer.code, 2, "{answer:?}");
    assert_eq!(answer.error()["help"], "did you mean `--from`?");
    let answer = plasma(&home1, "--json exit start 1");
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.error()["message"].as_str().unwrap().contains("--from"), "{answer:?}");
    assert_eq!(answer.error()["help"], "plasma exit start --help");

    let home2 = home("max_blok_margin = 3");
    for form in ["", "--json "] {
        let answer = plasma(&home2, &format!("{form}coin show 1"));
        assert_eq!(answer.code, 2, "{answer:?}");
        let said = format!("{}{}", answer.stdout, answer.stderr);
        for part in ["max_blok_margin", "plasma.toml", "line 3", "did you mean `max_block_margin`"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}

#[test]
fn a_port_in_use_is_named() {
    // Whoever holds it: this test, or another program of this machine.
    let _held = TcpListener::bind("127.0.0.1:8545");
    let home = tempfile::tempdir().unwrap();
    let answer = plasma(&home, "--json devnet up");
    assert_eq!(answer.code, 4, "{answer:?}");
    let error = answer.error();
    assert_eq!(error["code"], "port_in_use");
    assert!(error["message"].as_str().unwrap().contains("127.0.0.1"), "{error}");
    assert!(error["help"].as_str().unwrap().contains("--free-ports"), "{error}");
}
