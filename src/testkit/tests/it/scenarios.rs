//! The scenario runner on a small file of our own, and on what must not pass.

use std::process::Command;

use plasma_testkit::exit_game::play_file;
use serde_json::{Value, json};

const OWN: &str = include_str!("scenarios.json");

fn own() -> Value {
    serde_json::from_str(OWN).unwrap()
}

/// The deviations of the changed file, by scenario.
fn deviations(change: impl FnOnce(&mut Value)) -> Vec<Vec<String>> {
    let mut file = own();
    change(&mut file);
    let reports = play_file(&file.to_string()).unwrap();
    reports.into_iter().map(|report| report.deviations).collect()
}

fn refusal(change: impl FnOnce(&mut Value)) -> String {
    let mut file = own();
    change(&mut file);
    play_file(&file.to_string()).unwrap_err().to_string()
}

#[test]
fn our_own_file_passes() {
    for report in play_file(OWN).unwrap() {
        assert_eq!(report.deviations, Vec::<String>::new(), "{}", report.name);
    }
}

/// Every expectation counts: changed, it is reported, in its scenario and in no other.
#[test]
fn every_wrong_expectation_is_reported() {
    let file = own();
    for (s, scenario) in file["scenarios"].as_array().unwrap().iter().enumerate() {
        let actions = scenario["actions"].as_array().unwrap().len();
        let actions = (0..actions).map(|action| format!("/actions/{action}/expect"));
        let last = ["status", "paid_to", "burned", "hold_until", "bond_delta/ann"];
        let last = last.iter().map(|field| format!("/expected_final/{field}"));
        for place in actions.chain(last) {
            let found = deviations(|file| {
                let scenario = &mut file["scenarios"][s];
                match scenario.pointer_mut(&place) {
                    Some(Value::Number(number)) => {
                        *number = (number.as_i64().unwrap() + 1).into();
                    }
                    Some(Value::Null) => *scenario.pointer_mut(&place).unwrap() = json!("eve"),
                    Some(other) => *other = json!("TooManyRoots"),
                    // Somebody who is not listed must have gained nothing.
                    None => scenario["expected_final"]["bond_delta"]["ann"] = json!(7),
                }
            });
            for (other, found) in found.iter().enumerate() {
                assert_eq!(!found.is_empty(), other == s, "{place} of {s}: {found:?}");
            }
        }
    }
}

/// Somebody whom `bond_delta` leaves out must have gained and lost nothing.
#[test]
fn an_unlisted_loss_is_reported() {
    let found = deviations(|file| {
        file["scenarios"][1]["expected_final"]["bond_delta"] = json!({});
    });
    assert_eq!(found[1].len(), 2, "{found:?}");
}

#[test]
fn an_unknown_field_is_an_error() {
    let objects = [
        "",
        "/params",
        "/scenarios/0",
        "/scenarios/0/deposit",
        "/scenarios/0/blocks/0",
        "/scenarios/0/blocks/0/leaf",
        "/scenarios/0/actions/0",
        "/scenarios/0/actions/0/args",
        "/scenarios/0/actions/3/args",
        "/scenarios/0/actions/4/args",
        "/scenarios/0/actions/6/args",
        "/scenarios/2/actions/11/args",
        "/scenarios/2/actions/13/args",
        "/scenarios/3/actions/10/args",
        "/scenarios/0/expected_final",
    ];
    for object in objects {
        let reason = refusal(|file| file.pointer_mut(object).unwrap()["depth"] = json!(1));
        assert!(reason.contains("unknown field `depth`"), "{object}: {reason}");
    }
}

#[test]
fn what_is_not_of_the_format_is_refused() {
    let action = |place: &'static str, value: Value| {
        refusal(move |file| *file["scenarios"][0].pointer_mut(place).unwrap() = value)
    };
    assert!(action("/actions/0/call", json!("pause")).contains("unknown call `pause`"));
    assert!(action("/actions/0/args", json!({"parent": 0})).contains("both"));
    assert!(action("/actions/1/time", json!(-1)).contains("time -1 after 0"));
    assert!(action("/blocks/0/leaf/from_state", json!(2)).contains("descends from itself"));
    assert!(refusal(|file| file["version"] = json!(2)).contains("version 2"));
    assert!(refusal(|file| file["scenarios"] = json!([])).contains("no scenario"));
    assert!(refusal(|file| file["params"]["burned"] = json!(91)).contains("1/10,000"));
    assert!(play_file("{").unwrap_err().to_string().contains("not a scenario file"));
}

/// The program: a line a scenario, the deviations below it, and its exit code.
#[test]
fn the_program_fails_if_anything_deviates() {
    let dir = tempfile::tempdir().unwrap();
    let run = |text: &str| {
        let path = dir.path().join("file.json");
        std::fs::write(&path, text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_scenarios")).arg(path).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, printed) = run(OWN);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.ends_with("4 passed, 0 failed\n"), "{printed}");
    let mut wrong = own();
    wrong["scenarios"][2]["actions"][3]["expect"] = json!("ok");
    let (code, printed) = run(&wrong.to_string());
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("FAIL P03"), "{printed}");
    assert!(printed.contains("eve calls startExit at 0: NotChild, expected ok"), "{printed}");
    assert!(printed.ends_with("3 passed, 1 failed\n"), "{printed}");
    assert_eq!(run("{}").0, Some(2));
}
