//! `plasma store` on a closed store.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use plasma_e2e::{Answer, run};
use plasma_store::jmt_sled::JmtSled;
use plasma_store::letus::{Letus, Options};
use plasma_store::{Commitment, Store};
use serde_json::{Value, json};

fn store(dir: &Path, line: &str) -> Answer {
    let mut args = vec!["store", "--store", dir.to_str().unwrap()];
    args.extend(line.split_whitespace());
    run(&args, "")
}

/// The result of a command that succeeds.
fn data(dir: &Path, line: &str) -> Value {
    let answer = store(dir, &format!("{line} --json"));
    assert_eq!(answer.code, 0, "{line}: {answer:?}");
    answer.json()["data"].take()
}

/// Exit code and name of the error of a command that fails; it has a cure.
fn error(dir: &Path, line: &str) -> (i32, String, String) {
    let answer = store(dir, &format!("{line} --json"));
    let error = answer.error();
    assert_ne!(error["help"], "", "{line}: {answer:?}");
    let text = |field: &str| error[field].as_str().unwrap().to_owned();
    (answer.code, text("code"), text("message"))
}

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.code, 0, "{answer:?}");
    answer.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let read = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    entries.map(read).collect()
}

/// Versions 0 to 9: each writes its number to `all` and to a key of its own; `gone` dies at 5.
fn make(dir: &Path) -> Vec<Commitment> {
    let store = Letus::open(dir, Options { segment_bytes: 2_048, ..Options::default() }).unwrap();
    let mut commitments = Vec::new();
    for version in 0..10u8 {
        let put = |key: String| (key.into_bytes(), Some(vec![version]));
        let mut batch = vec![put("all".into()), put(format!("key{version}"))];
        match version {
            0 => batch.push(put("gone".into())),
            5 => batch.push((b"gone".to_vec(), None)),
            _ => {}
        }
        commitments.push(store.commit(version.into(), &batch).unwrap());
        store.persist(version.into()).unwrap();
    }
    commitments
}

#[test]
fn a_store_is_read_without_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let commitments = make(dir.path());
    let newest = commitments[9].to_string();
    let before = files(dir.path());

    let info = data(dir.path(), "info");
    assert_eq!((&info["oldest"], &info["latest"]), (&json!(0), &json!(9)));
    assert_eq!((&info["commitment"], &info["scheme"]), (&json!(newest), &json!("letus-blake3/1")));

    assert_eq!(data(dir.path(), "verify --all")["keys"], 11);
    assert_eq!(data(dir.path(), "verify --version 4")["keys"], 7);
    data(dir.path(), &format!("verify --version 4 --commitment 0x{}", commitments[4]));
    let (code, name, _) = error(dir.path(), &format!("verify --commitment {}", commitments[4]));
    assert_eq!((code, name.as_str()), (3, "store_commitment"));

    assert_eq!(store(dir.path(), "get all").stdout, "0x09\n");
    assert_eq!(data(dir.path(), "get 0x616c6c --version 3")["value"], "0x03");
    assert_eq!(error(dir.path(), "get gone").0, 3);
    assert_eq!(error(dir.path(), "get all --trie 1").0, 3);
    let proven = data(dir.path(), "get gone --version 4 --prove");
    assert_eq!((&proven["value"], &proven["commitment"]), (&json!("0x00"), &json!(newest)));
    let proof = hex::decode(proven["proof"].as_str().unwrap().trim_start_matches("0x")).unwrap();
    let shown = plasma_store::letus::verify_at::<plasma_store::hash::Blake3>(
        commitments[9],
        (0, b"gone"),
        Some(&[0]),
        &proof,
    );
    assert_eq!(shown, Ok(4));
    assert_eq!(data(dir.path(), "get gone --prove")["value"], Value::Null);

    let history = lines(&store(dir.path(), "history gone --json"));
    let change = |version: u64, value: Value| json!({"version": version, "value": value});
    assert_eq!(history, [change(5, Value::Null), change(0, json!("0x00"))]);
    let range = store(dir.path(), "range --from key3 --to key9 --limit 2");
    assert_eq!(range.stdout, "0x6b657933 0x03\n0x6b657934 0x04\n");
    let mut all = lines(&store(dir.path(), "range --version 4 --json"));
    let mut dump = lines(&store(dir.path(), "dump --version 4 --json"));
    all.sort_by_key(Value::to_string);
    dump.sort_by_key(Value::to_string);
    assert_eq!((all.len(), all), (7, dump));

    let (code, name, _) = error(dir.path(), "get all --version 10");
    assert_eq!((code, name.as_str()), (3, "store_version"));
    assert_eq!(files(dir.path()), before);
}

#[test]
fn a_version_is_sent_and_the_rest_pruned() {
    let dir = tempfile::tempdir().unwrap();
    let [old, chunks, new] = ["old", "chunks", "new"].map(|name| dir.path().join(name));
    let commitments = make(&old);
    let export = data(&old, &format!("export {} --chunk-bytes 1024", chunks.display()));
    assert_eq!(export["commitment"], commitments[9].to_string());
    assert_eq!(error(&old, &format!("export {}", chunks.display())).0, 2, "it is not empty");

    let line = format!("import {} --commitment {}", chunks.display(), commitments[9]);
    let last = chunks.join(format!("chunk-{:06}", export["chunks"].as_u64().unwrap() - 1));
    let good = fs::read(&last).unwrap();
    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 1;
    fs::write(&last, &bad).unwrap();
    let (code, name, message) = error(&new, &line);
    assert_eq!((code, name.as_str()), (3, "chunk"));
    assert!(message.starts_with(last.to_str().unwrap()), "{message}");
    fs::write(&last, &good).unwrap();
    assert_eq!(data(&new, &line)["version"], 9);
    assert_eq!(data(&new, "verify")["commitment"], commitments[9].to_string());
    assert_eq!(error(&new, &line).1, "store_foreign", "a store is there");

    assert_eq!(data(&old, "prune 7")["oldest"], 7);
    assert_eq!(data(&old, "verify --all")["from"], 7);
    let (code, name, _) = error(&old, "get all --version 6");
    assert_eq!((code, name.as_str()), (3, "store_version"));
    assert_eq!(store(&old, "get all --version 7").stdout, "0x07\n");
}

#[test]
fn wrong_directories_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let [missing, sled, letus] = ["missing", "sled", "letus"].map(|name| dir.path().join(name));
    for line in ["info", "prune 1"] {
        let (code, name, _) = error(&missing, line);
        assert_eq!((code, name.as_str()), (2, "store_missing"));
        assert!(!missing.exists());
    }
    drop(JmtSled::open(&sled, 1 << 20).unwrap());
    assert_eq!(error(&sled, "info").1, "store_foreign");

    make(&letus);
    let open = Letus::open(&letus, Options::default()).unwrap();
    assert_eq!(error(&letus, "info").1, "store_locked");
    drop(open);
    let damage = |name: &str, at: usize| {
        let mut bytes = fs::read(letus.join(name)).unwrap();
        bytes[at] ^= 1;
        fs::write(letus.join(name), bytes).unwrap();
    };
    let values = files(&letus).into_keys().find(|name| name.starts_with("values")).unwrap();
    damage(&values, 45);
    let (code, name, message) = error(&letus, "verify --all");
    assert_eq!((code, name.as_str()), (1, "store_corrupt"));
    assert!(message.contains("values"), "{message}");
    damage(&values, 45);
    data(&letus, "verify --all");
    damage("manifest", 20);
    assert_eq!(error(&letus, "info").0, 1);
}
