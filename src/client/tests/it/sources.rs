//! Where proofs come from: hostile nodes and hostile files. Each fault is refused by the name of
//! its block, and what was checked before it stays.

use plasma_client::challenge::Inclusion;
use plasma_client::history::{History, HistoryError, follow};
use plasma_client::history_file::{FileError, HEADER_LEN, Header, HistoryFile, write_shown};
use plasma_client::queries::CoinProof;
use plasma_client::rpc::NodeClient;
use plasma_core::coin::Deposit;
use plasma_core::domain::Domain;
use plasma_core::wire::put_varint;
use plasma_core::{B256, BlockNumber, U256};

use crate::chain::{COIN, Chain, address, deposit, domain, good};
use crate::responder::{DEADLINE, Node};

fn fresh() -> History {
    History::new(COIN, deposit(), domain()).unwrap()
}

/// An answer with the proofs of some blocks.
fn answer<'a>(shown: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let (mut count, mut list) = (0, Vec::new());
    for bytes in shown {
        put_varint(&mut list, bytes.len() as u64);
        list.extend_from_slice(bytes);
        count += 1;
    }
    let mut out = Vec::new();
    put_varint(&mut out, count);
    [out, list].concat()
}

/// A node that answers with at most `page` blocks of `shown`.
async fn node(first: BlockNumber, shown: Vec<Vec<u8>>, page: usize) -> Node {
    Node::queries(move |path, _| {
        let range = path.strip_prefix(&format!("/coin/{COIN}/proofs/")).unwrap();
        let (from, to) = range.split_once('/').unwrap();
        let [from, to] = [from, to].map(|text| text.parse::<BlockNumber>().unwrap());
        let list: Vec<&[u8]> = (from..=to)
            .map_while(|block| shown.get(usize::try_from(block - first).unwrap()))
            .take(page)
            .map(Vec::as_slice)
            .collect();
        match list.is_empty() {
            true => (2, Vec::new(), Vec::new()),
            false => (0, Vec::new(), answer(list.into_iter())),
        }
    })
    .await
}

fn encoded(chain: &Chain) -> Vec<Vec<u8>> {
    chain.proofs.values().map(CoinProof::encode).collect()
}

/// Follows a node as a receiver does; the history as far as it came, and the outcome.
async fn ask(
    client: &NodeClient,
    chain: &Chain,
    newest: BlockNumber,
) -> (History, Result<usize, HistoryError>) {
    let (mut history, mut kept) = (fresh(), 0);
    let done = follow(client, &mut history, newest, |n| chain.root(n), |_| kept += 1).await;
    let done = done.and_then(|()| history.refuse_garbage()).map(|()| kept);
    (history, done)
}

#[tokio::test]
async fn a_node_is_asked_page_by_page() {
    let (chain, state) = good();
    for page in [1, 2, 3, 100] {
        let node = node(3, encoded(&chain), page).await;
        let (history, kept) = ask(&node.client(), &chain, 6).await;
        assert_eq!((kept.unwrap(), history.checked(), history.state()), (4, 6, state));
        assert_eq!(node.requests.lock().unwrap().len(), 4usize.div_ceil(page));
    }
    // Only new blocks are asked for.
    let node = node(3, encoded(&chain), 100).await;
    let mut history = fresh();
    for newest in [4, 4, 6] {
        follow(&node.client(), &mut history, newest, |n| chain.root(n), |_| ()).await.unwrap();
    }
    let asked = node.requests.lock().unwrap();
    let paths: Vec<_> = asked.iter().map(|r| r["params"]["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/coin/7/proofs/3/4", "/coin/7/proofs/5/6"]);
}

#[tokio::test]
async fn a_node_that_omits_swaps_cuts_or_alters_is_refused_by_block() {
    let (chain, _) = good();
    let proofs = encoded(&chain);
    let at = |block: usize| block - 3;
    for block in 3..=6usize {
        let mut omitted = proofs.clone();
        omitted.truncate(at(block));
        let mut cut = proofs.clone();
        cut[at(block)].pop();
        let mut swapped = proofs.clone();
        swapped[at(block)] = proofs[at(if block % 2 == 0 { 3 } else { 4 })].clone();
        if block == 3 {
            swapped[at(block)] = proofs[at(5)].clone();
        }
        let mut altered = proofs.clone();
        // In the first sibling, which follows depth and bitmap, in an inclusion behind `X`.
        let sibling = if block % 2 == 0 { 1 + 140 + 9 } else { 1 + 9 };
        altered[at(block)][sibling] ^= 1;
        for (lie, shown) in
            [("omitted", omitted), ("cut", cut), ("swapped", swapped), ("altered", altered)]
        {
            let node = node(3, shown, 2).await;
            let (history, found) = ask(&node.client(), &chain, 6).await;
            let named = match (lie, found) {
                ("omitted", Err(HistoryError::Missing(n)))
                | ("cut", Err(HistoryError::Malformed { block: n, .. }))
                | ("swapped" | "altered", Err(HistoryError::Proof { block: n, .. })) => n,
                other => panic!("{block}: {other:?}"),
            };
            assert_eq!((named, history.checked()), (block as u64, block as u64 - 1), "{lie}");
        }
    }
}

#[tokio::test]
async fn a_node_that_skips_a_block_is_refused() {
    let (chain, _) = good();
    let mut proofs = encoded(&chain);
    proofs.remove(1);
    let node = node(3, proofs, 100).await;
    let (_, found) = ask(&node.client(), &chain, 5).await;
    assert!(matches!(found, Err(HistoryError::Proof { block: 4, .. })), "{found:?}");
}

#[tokio::test]
async fn answers_that_lie_about_their_size_are_refused() {
    let (chain, _) = good();
    let shown = encoded(&chain);
    let mut huge = Vec::new();
    put_varint(&mut huge, u64::MAX);
    let mut long = vec![1];
    put_varint(&mut long, u64::MAX);
    let cases: [(&str, Vec<u8>); 6] = [
        ("empty", Vec::new()),
        ("more than asked", answer((0..5).map(|_| &shown[0][..]))),
        ("2^64 - 1 proofs", huge),
        ("a proof of 2^64 - 1 bytes", long),
        (
            "a proof is missing",
            [vec![4], answer(shown[..3].iter().map(|s| &s[..]))[1..].to_vec()].concat(),
        ),
        ("trailing", [answer(shown.iter().map(|s| &s[..])), vec![0]].concat()),
    ];
    for (lie, value) in cases {
        let node = Node::queries(move |_, _| (0, Vec::new(), value.clone())).await;
        let (_, found) = ask(&node.client(), &chain, 6).await;
        assert!(matches!(found, Err(HistoryError::Malformed { .. })), "{lie}: {found:?}");
    }
    let node = Node::queries(|_, _| (0, Vec::new(), vec![0])).await;
    let (_, found) = ask(&node.client(), &chain, 6).await;
    assert!(matches!(found, Err(HistoryError::Missing(3))), "{found:?}");
    let nobody = NodeClient::new("http://127.0.0.1:1", DEADLINE).unwrap();
    let (_, found) = ask(&nobody, &chain, 6).await;
    assert!(matches!(found, Err(HistoryError::Rpc(_))), "{found:?}");
}

fn header() -> Header {
    Header::of(&fresh())
}

fn file(chain: &Chain) -> Vec<u8> {
    let mut out = header().encode();
    assert_eq!(out.len(), HEADER_LEN);
    for shown in chain.proofs.values() {
        write_shown(&mut out, shown).unwrap();
    }
    out
}

/// Reads a file as a receiver without a node does.
fn read(bytes: &[u8], chain: &Chain) -> (History, Result<(), FileError>) {
    let mut history = fresh();
    let done = HistoryFile::open(bytes).and_then(|mut file| {
        file.follow(&mut history, chain.newest(), |n| chain.root(n), |_| ())?;
        history.refuse_garbage()?;
        match history.checked() {
            n if n < chain.newest() => Err(HistoryError::Missing(n + 1).into()),
            _ => Ok(()),
        }
    });
    (history, done)
}

#[test]
fn a_file_needs_no_node() {
    let (chain, state) = good();
    let (history, done) = read(&file(&chain), &chain);
    done.unwrap();
    assert_eq!((history.checked(), history.state()), (6, state));
    let shown: Vec<Inclusion> = history.moves().cloned().collect();
    assert_eq!(shown[1].proof, chain.proofs[&6].proof);
    // A history that knows a part skips it, and whatever stands there.
    let mut half = fresh();
    for block in 3..=4 {
        let _ = half.extend(chain.root(block), &chain.proofs[&block]).unwrap();
    }
    let mut kept = Vec::new();
    let bytes = file(&chain);
    let mut reader = HistoryFile::open(&bytes[..]).unwrap();
    reader.follow(&mut half, 6, |n| chain.root(n), |shown| kept.push(shown.clone())).unwrap();
    assert_eq!(half, history);
    assert_eq!(kept, [chain.proofs[&5].clone(), chain.proofs[&6].clone()]);
}

#[test]
fn a_file_that_ends_early_misses_the_next_block() {
    let (chain, _) = good();
    let bytes = file(&chain);
    let mut ends = vec![HEADER_LEN];
    for shown in chain.proofs.values() {
        let mut one = Vec::new();
        write_shown(&mut one, shown).unwrap();
        ends.push(ends.last().unwrap() + one.len());
    }
    assert_eq!(ends[4], bytes.len());
    for length in 0..bytes.len() {
        let (_, found) = read(&bytes[..length], &chain);
        let whole = ends.iter().filter(|end| **end <= length).count() as u64;
        match found {
            Err(FileError::Magic) => assert_eq!(whole, 0),
            Err(FileError::History(HistoryError::Missing(n))) => assert_eq!(n, 2 + whole),
            other => panic!("{length}: {other:?}"),
        }
    }
}

#[test]
fn every_tampered_bit_of_a_file_is_noticed() {
    let (chain, _) = good();
    let bytes = file(&chain);
    for at in 0..bytes.len() {
        let mut tampered = bytes.clone();
        tampered[at] ^= 1 << (at % 8);
        let (_, found) = read(&tampered, &chain);
        let found = found.expect_err("a tampered file passes");
        match found {
            FileError::Magic => assert!(at < 8),
            FileError::Header(_) | FileError::Other { .. } => assert!(at < HEADER_LEN),
            FileError::History(_) => assert!(at >= HEADER_LEN),
            FileError::Io(_) => panic!("{at}: {found}"),
        }
    }
}

#[test]
fn files_of_something_else_say_so() {
    let (chain, _) = good();
    let other_coin = Header { coin: COIN + 1, ..header() };
    let other_chain = Header { domain: Domain::new(1, domain().root_chain), ..header() };
    let richer = Deposit { value: U256::from(2_000), ..deposit() };
    let richer = Header { deposit: richer, ..header() };
    let owner = Deposit { owner: address("mallory"), ..deposit() };
    let owner = Header { deposit: owner, ..header() };
    for (header, word) in [
        (other_coin, "coin 8"),
        (other_chain, "chain 1"),
        (richer, "another deposit record"),
        (owner, "another deposit record"),
    ] {
        let bytes = [&header.encode()[..], &file(&chain)[HEADER_LEN..]].concat();
        let (history, found) = read(&bytes, &chain);
        match found {
            Err(error @ FileError::Other { .. }) => assert!(error.to_string().contains(word)),
            other => panic!("{word}: {other:?}"),
        }
        assert_eq!(history, fresh());
    }
    for bytes in [&b""[..], b"{", b"PLSMHIS2", &[b'['; 100_000]] {
        let (_, found) = read(bytes, &chain);
        assert!(matches!(found, Err(FileError::Magic)), "{found:?}");
    }
    let newer = [b"PLSMHIS2", &file(&chain)[8..]].concat();
    assert!(matches!(read(&newer, &chain).1, Err(FileError::Magic)));
}

#[test]
fn a_file_cannot_ask_for_memory() {
    let (chain, _) = good();
    for length in [
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..],
        &[0xff, 0xff, 0x7f],
        &[0xff, 0x7f],
        &[0x80, 0x00],
    ] {
        let bytes = [&header().encode()[..], length, &[0; 20_000]].concat();
        let (_, found) = read(&bytes, &chain);
        assert!(
            matches!(found, Err(FileError::History(HistoryError::Malformed { block: 3, .. }))),
            "{length:x?}: {found:?}"
        );
    }
    // A deposit at the end of all blocks.
    let last = Deposit { deposit_block: u64::MAX, ..deposit() };
    let last = Header { deposit: last, ..header() }.encode();
    let mut file = HistoryFile::open(&last[..]).unwrap();
    assert_eq!(file.next_shown().unwrap(), None);
    let roots = |_: BlockNumber| Some(B256::ZERO);
    let found = file.follow(&mut fresh(), 9, roots, |_| ());
    assert!(matches!(found, Err(FileError::Other { .. })), "{found:?}");
}
