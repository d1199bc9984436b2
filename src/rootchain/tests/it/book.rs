//! What the watcher remembers, after its file was damaged.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;

use plasma_core::domain::Domain;
use plasma_core::{Address, B256};
use plasma_rootchain::watcher::book::{Book, Position};
use plasma_rootchain::watcher::scan::Counts;

#[test]
fn a_lost_line_makes_the_watcher_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("watch.log");
    let open = || Book::open(dir.path(), Domain::new(31_337, Address::repeat_byte(1))).unwrap();
    let append = |text: &str| {
        let mut file = OpenOptions::new().append(true).open(&file).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    let counts = Counts { deposits: 1, exits: 1, blocks: 1 };
    let position = Position { block: (7, B256::ZERO), counts };
    let mut book = open();
    book.keep_position(position, &BTreeSet::from([3])).unwrap();
    drop(book);
    let line = fs::read_to_string(&file).unwrap().lines().last().unwrap().to_owned();

    // Torn by a crash: it was not acted on.
    append(&line[..12]);
    assert_eq!(open().position(), Some(position));
    // Torn by a full disk, with a line right behind it and others that followed.
    append(&format!("{}{line}\n{line}\n", &line[..12]));
    let book = open();
    assert_eq!(book.position(), None);
    assert!(book.touched().contains(&3));
}
