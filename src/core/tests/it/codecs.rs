//! Every format: what is encoded decodes to the same, and nothing else decodes.

use plasma_core::certificate::Certificate;
use plasma_core::code::Code;
use plasma_core::coin::Deposit;
use plasma_core::event::RootEvent;
use plasma_core::extension::{Attestation, Observation, VoteExtension, limit};
use plasma_core::proposal::{Observed, Proposal};
use plasma_core::signature::Signature;
use plasma_core::transfer::{SignedTransfer, Transfer, WireTransfer};
use plasma_core::tx::{BUNDLE_BYTES_MAX, Tx, TxError, executed_bitmap};
use plasma_core::wire::{Reader, WireError, put_varint};
use plasma_core::{B256, U256, state};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use crate::samples;

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..300u64, any::<u64>(), (0..64u32).prop_map(|bits| 1 << bits)]
}

fn signature() -> impl Strategy<Value = Signature> {
    any::<[[u8; 32]; 2]>().prop_map(|halves| Signature(halves.concat().try_into().unwrap()))
}

fn hash() -> impl Strategy<Value = B256> {
    any::<[u8; 32]>().prop_map(B256::from)
}

prop_compose! {
    fn wire()(
        coin in number(), owner in any::<[u8; 20]>(), max_block in number(),
        signature in signature(),
    ) -> WireTransfer {
        WireTransfer { coin, new_owner: owner.into(), max_block, signature }
    }
}

fn tx() -> impl Strategy<Value = Tx> {
    let bundle = vec(wire(), 1..20).prop_map(|mut transfers| {
        transfers.sort_by_key(|transfer| transfer.coin);
        transfers.dedup_by_key(|transfer| transfer.coin);
        Tx::Bundle(transfers)
    });
    prop_oneof![wire().prop_map(Tx::Transfer), bundle]
}

fn extension() -> impl Strategy<Value = VoteExtension> {
    let attestation =
        (number(), signature()).prop_map(|(number, signature)| Attestation { number, signature });
    let observation =
        (number(), hash(), signature()).prop_map(|(event_count, event_hash, signature)| {
            Observation { event_count, event_hash, signature }
        });
    (option::of(attestation), option::of(observation))
        .prop_map(|(attestation, observation)| VoteExtension { attestation, observation })
}

const VALIDATORS: usize = 11;

fn certificate() -> impl Strategy<Value = Certificate> {
    (number(), btree_map(0..VALIDATORS, signature(), 0..=VALIDATORS)).prop_map(|(n, signed)| {
        Certificate::new(n, VALIDATORS, &signed.into_iter().collect::<Vec<_>>())
    })
}

fn proposal() -> impl Strategy<Value = Proposal> {
    let observations = btree_map(0..VALIDATORS, (number(), signature()), 0..=VALIDATORS);
    (
        option::of((1..=u64::MAX, hash())),
        option::of(certificate()),
        observations,
        vec(vec(any::<u8>(), 0..=400), 0..5),
    )
        .prop_map(|(closing, certificate, observations, events)| Proposal {
            closing,
            certificate,
            observations: observations
                .into_iter()
                .map(|(validator, (event_count, signature))| Observed {
                    validator,
                    event_count,
                    signature,
                })
                .collect(),
            events,
        })
}

fn event() -> impl Strategy<Value = RootEvent> {
    let address = || any::<[u8; 20]>();
    let deposit = (
        (number(), number(), 1..=1_000u16, address(), any::<u8>()),
        (address(), hash(), hash(), number()),
    )
        .prop_map(|((deposit_id, first_coin, count, owner, asset_kind), rest)| {
            let (token, token_id, value, deposit_block) = rest;
            RootEvent::Deposited(Deposit {
                deposit_id,
                first_coin,
                count,
                owner: owner.into(),
                asset_kind,
                token: token.into(),
                token_id: U256::from_be_bytes(token_id.0),
                value: U256::from_be_bytes(value.0),
                deposit_block,
            })
        });
    prop_oneof![
        deposit,
        number().prop_map(RootEvent::ExitStarted),
        number().prop_map(RootEvent::Thawed),
        number().prop_map(RootEvent::ExitFinalized),
    ]
}

/// `bytes` decode to something of which they are the only encoding; their cuts and an added byte
/// do not decode.
fn only_encoding<T>(bytes: &[u8], decode: impl Fn(&[u8]) -> Option<T>) {
    assert!(decode(bytes).is_some());
    for len in 0..bytes.len() {
        assert!(decode(&bytes[..len]).is_none(), "cut to {len}");
    }
    for extra in [0, 1, 0xff] {
        assert!(decode(&[bytes, &[extra]].concat()).is_none(), "with {extra}");
    }
}

fn whole<T>(bytes: &[u8], read: impl FnOnce(&mut Reader<'_>) -> Result<T, WireError>) -> Option<T> {
    let mut reader = Reader::new(bytes);
    let value = read(&mut reader).ok()?;
    reader.finish().ok()?;
    Some(value)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn transactions(tx in tx()) {
        let bytes = tx.encode();
        prop_assert_eq!(Tx::decode(&bytes), Ok(tx));
        only_encoding(&bytes, |b| Tx::decode(b).ok());
    }

    #[test]
    fn extensions(extension in extension(), pad in 0..400u64) {
        let bytes = extension.encode(0);
        prop_assert!(bytes.len() <= limit(0));
        prop_assert_eq!(VoteExtension::decode(&bytes, 0), Ok(extension));
        if !bytes.is_empty() {
            // Zero bytes are an extension too: the empty one.
            only_encoding(&bytes, |b| VoteExtension::decode(b, 0).ok().filter(|e| *e == extension));
        }
        let padded = extension.encode(pad);
        prop_assert!(padded.is_empty() || padded.len() >= pad as usize);
        prop_assert!(padded.len() <= limit(pad));
        prop_assert_eq!(VoteExtension::decode(&padded, pad), Ok(extension));
        if padded.len() > bytes.len() {
            prop_assert!(VoteExtension::decode(&padded, 0).is_err());
            let mut dirty = padded.clone();
            *dirty.last_mut().unwrap() = 1;
            prop_assert!(VoteExtension::decode(&dirty, pad).is_err());
        }
    }

    #[test]
    fn certificates(certificate in certificate()) {
        let mut bytes = Vec::new();
        certificate.encode(&mut bytes);
        let decode = |b: &[u8]| whole(b, |r| Certificate::decode(r, VALIDATORS));
        prop_assert_eq!(decode(&bytes), Some(certificate));
        only_encoding(&bytes, decode);
    }

    #[test]
    fn proposals(proposal in proposal()) {
        let bytes = proposal.encode();
        prop_assert_eq!(Proposal::decode(&bytes, VALIDATORS), Ok(proposal));
        only_encoding(&bytes, |b| Proposal::decode(b, VALIDATORS).ok());
    }

    #[test]
    fn events(event in event()) {
        let bytes = event.encode();
        prop_assert_eq!(RootEvent::decode(&bytes), Some(event));
        only_encoding(&bytes, RootEvent::decode);
    }

    #[test]
    fn full_transfers(wire in wire(), prev_block in number(), prev_hash in hash()) {
        let full = wire.spending(prev_block, prev_hash);
        let bytes = full.encode();
        let decode = |b: &[u8]| whole(b, SignedTransfer::decode);
        prop_assert_eq!(decode(&bytes), Some(full));
        prop_assert_eq!(full.wire(), wire);
        only_encoding(&bytes, decode);
    }

    #[test]
    fn arbitrary_bytes(mut bytes in vec(any::<u8>(), 0..700), head in 0..6u8, pad in 0..300u64) {
        if let Some(first) = bytes.first_mut() {
            *first = head;
        }
        // What decodes is the only encoding of what it means.
        if let Ok(tx) = Tx::decode(&bytes) {
            prop_assert_eq!(tx.encode(), bytes.clone());
        }
        if let Ok(extension) = VoteExtension::decode(&bytes, 0) {
            prop_assert_eq!(extension.encode(0), bytes.clone());
        }
        let _ = VoteExtension::decode(&bytes, pad);
        if let Ok(proposal) = Proposal::decode(&bytes, VALIDATORS) {
            prop_assert_eq!(proposal.encode(), bytes.clone());
        }
        let _ = Certificate::decode(&mut Reader::new(&bytes), 10_000);
        let _ = RootEvent::decode(&bytes);
        let _ = state::decode_deposit(1, &bytes);
        let _ = state::CoinRecord::decode(&bytes);
        let _ = state::Tip::decode(&bytes);
        let _ = state::BlockRecord::decode(&bytes);
        let _ = state::Params::decode(&bytes);
        let _ = state::decode_validators(&bytes);
    }

    /// One changed byte of a valid message: refused, or the only encoding of another.
    #[test]
    fn mutated_messages(
        tx in tx(), proposal in proposal(), extension in extension(), event in event(),
        at in any::<prop::sample::Index>(), value in any::<u8>(),
    ) {
        let mutate = |mut bytes: Vec<u8>| {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes
        };
        let bytes = mutate(tx.encode());
        if let Ok(other) = Tx::decode(&bytes) {
            prop_assert_eq!(other.encode(), bytes);
        }
        let bytes = mutate(proposal.encode());
        if let Ok(other) = Proposal::decode(&bytes, VALIDATORS) {
            prop_assert_eq!(other.encode(), bytes);
        }
        let bytes = mutate(extension.encode(0));
        if let Ok(other) = VoteExtension::decode(&bytes, 0) {
            prop_assert_eq!(other.encode(0), bytes);
        }
        let bytes = mutate(event.encode());
        if let Some(other) = RootEvent::decode(&bytes) {
            prop_assert_eq!(other.encode(), bytes);
        }
    }

    #[test]
    fn varints(value in number(), tail in vec(any::<u8>(), 0..12)) {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        only_encoding(&bytes, |b| whole(b, |r| r.varint()));
        // The same value with a needless last byte.
        let last = bytes.len() - 1;
        bytes[last] |= 0x80;
        bytes.push(0);
        prop_assert_eq!(Reader::new(&bytes).varint(), Err(WireError::Varint { at: 0 }));
        let mut reader = Reader::new(&tail);
        if let Ok(value) = reader.varint() {
            let mut again = Vec::new();
            put_varint(&mut again, value);
            prop_assert_eq!(&again[..], &tail[..tail.len() - reader.remaining()]);
        }
    }
}

/// The examples that formats.md spells out.
#[test]
fn bytes_of_formats_md() {
    assert_eq!(Proposal::default().encode(), [0, 1, 0, 0, 0, 0]);
    let root = samples::hash("root", 5);
    let closing = Proposal { closing: Some((5, root)), ..Proposal::default() };
    assert_eq!(closing.encode(), [&[0, 1, 5][..], root.as_slice(), &[0, 0, 0]].concat());
    assert!(VoteExtension::default().encode(0).is_empty());
    assert!(VoteExtension::default().encode(500).is_empty());
    assert_eq!((limit(0), limit(256), limit(300)), (256, 256, 300));
}

#[test]
fn heads_of_an_extension_that_are_refused() {
    let refused = |bytes: &[u8], pad| match VoteExtension::decode(bytes, pad) {
        Err(WireError::Value { what, value }) => (what, value),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&[0, 1], 0), ("extension version", 0));
    assert_eq!(refused(&[2, 1], 0), ("extension version", 2));
    assert_eq!(refused(&[1, 0], 0), ("extension flags", 0));
    assert_eq!(refused(&[1, 0, 0, 0], 4), ("extension flags", 0));
    assert_eq!(refused(&[1, 4], 0), ("extension flags", 4));
}

#[test]
fn transactions_are_refused_with_their_codes() {
    let code = |bytes: &[u8]| Tx::decode(bytes).map_err(|error| error.code());
    let good = Tx::Transfer(sample(1)).encode();
    assert_eq!(code(b""), Err(Code::Empty));
    assert_eq!(code(b"0x01ff"), Err(Code::QuotedHex));
    assert_eq!(code(b"0X01ff"), Err(Code::QuotedHex));
    assert_eq!(code(b"01ff"), Err(Code::QuotedHex));
    assert_eq!(code(b"hello"), Err(Code::Malformed));
    assert_eq!(code(&[3]), Err(Code::Malformed));
    assert_eq!(code(&[0, 1, 0, 0, 0, 0]), Err(Code::ProposalNotAllowed));
    assert_eq!(code(&good[..good.len() - 1]), Err(Code::Malformed));
    assert_eq!(code(&[2, 0]), Err(Code::Malformed));
    assert_eq!(code(&[2, 0x89, 0x27]), Err(Code::TooLarge));
    assert_eq!(code(&[2, 0x88, 0x27]), Err(Code::Malformed));
    assert_eq!(code(&vec![2; BUNDLE_BYTES_MAX + 1]), Err(Code::TooLarge));
    let twice = Tx::Bundle(vec![sample(5), sample(5)]).encode();
    assert_eq!(Tx::decode(&twice), Err(TxError::NotAscending { coin: 5 }));
    let falling = Tx::Bundle(vec![sample(6), sample(5)]).encode();
    assert_eq!(Tx::decode(&falling), Err(TxError::NotAscending { coin: 5 }));
}

fn sample(coin: u64) -> WireTransfer {
    let (prev_hash, new_owner) = (samples::hash("state", coin), samples::address("owner", coin));
    let message = Transfer { coin, prev_block: 1, prev_hash, new_owner, max_block: 9 };
    let digest = message.digest(&samples::domain());
    message.with_signature(samples::key(coin).sign(digest)).wire()
}

#[test]
fn the_largest_bundle() {
    let largest = Tx::Bundle((1..=5_000).map(sample_unsigned).collect());
    assert!(largest.encode().len() <= BUNDLE_BYTES_MAX);
    assert_eq!(Tx::decode(&largest.encode()), Ok(largest));
    let over = Tx::Bundle((1..=5_001).map(sample_unsigned).collect()).encode();
    assert!(matches!(Tx::decode(&over), Err(TxError::TooLarge { transfers: 5_001, .. })));
}

fn sample_unsigned(coin: u64) -> WireTransfer {
    let new_owner = samples::address("owner", coin);
    WireTransfer { coin, new_owner, max_block: u64::MAX, signature: Signature([7; 64]) }
}

#[test]
fn lists_of_a_proposal_are_bounded() {
    let decode = |bytes: &[u8]| {
        Proposal::decode(bytes, 2).map_err(|error| match error {
            WireError::Value { what, .. } => what,
            other => panic!("{other}"),
        })
    };
    assert_eq!(decode(&[1]), Err("kind"));
    assert_eq!(decode(&[0, 2]), Err("proposal version"));
    assert_eq!(decode(&[0, 1, 0, 2]), Err("certificate flag"));
    assert_eq!(decode(&[0, 1, 0, 0, 3]), Err("observation count"));
    assert_eq!(decode(&[0, 1, 0, 0, 1, 2]), Err("validator index"));
    assert_eq!(decode(&[0, 1, 0, 0, 0, 0xe9, 0x07]), Err("event count"));
    assert_eq!(decode(&[0, 1, 0, 0, 0, 1, 0x81, 0x08]), Err("event length"));
    let observed = |validator| Observed { validator, event_count: 1, signature: Signature::ZERO };
    for pair in [[1, 1], [1, 0]] {
        let observations = pair.map(observed).to_vec();
        let bytes = Proposal { observations, ..Proposal::default() }.encode();
        assert_eq!(decode(&bytes), Err("validator index"));
    }
}

#[test]
fn events_that_make_no_sense() {
    let deposit =
        |count| RootEvent::Deposited(Deposit { count, ..samples::deposits()[0] }).encode();
    assert_eq!(RootEvent::decode(&deposit(0)), None);
    assert!(RootEvent::decode(&deposit(1_000)).is_some());
    assert_eq!(RootEvent::decode(&deposit(1_001)), None);
    let good = RootEvent::ExitStarted(7).encode();
    for (at, value) in [(31, 0), (31, 1), (31, 5), (30, 1), (0, 1), (32, 1), (55, 1)] {
        let mut bad = good.clone();
        bad[at] = value;
        assert_eq!(RootEvent::decode(&bad), None, "byte {at} = {value}");
    }
}

#[test]
fn bundle_results() {
    assert!(executed_bitmap(&[true; 20]).is_empty());
    let mut executed = [true; 11];
    executed[0] = false;
    executed[9] = false;
    assert_eq!(executed_bitmap(&executed), [0xfe, 0x05]);
}

#[test]
fn state_values() {
    for d in samples::deposits() {
        let bytes = state::encode_deposit(&d);
        assert_eq!(bytes.len(), 123);
        assert_eq!(state::decode_deposit(d.deposit_id, &bytes), Ok(d));
        only_encoding(&bytes, |b| state::decode_deposit(1, b).ok());
        let unmoved = state::CoinRecord::unmoved(&d.state(d.first_coin, &samples::domain()));
        assert!(!unmoved.moved());
        for (frozen, gone) in [(false, false), (true, false), (false, true), (true, true)] {
            let record = state::CoinRecord { frozen, gone, ..unmoved };
            let bytes = record.encode();
            assert_eq!(bytes.len(), state::CoinRecord::ENCODED_LEN);
            assert_eq!(state::CoinRecord::decode(&bytes), Ok(record));
            only_encoding(&bytes, |b| state::CoinRecord::decode(b).ok());
        }
    }
    let tip = state::Tip { height: 1, last_coin: u64::MAX, ignored: 3, ..state::Tip::default() };
    assert_eq!(state::Tip::decode(&tip.encode()), Ok(tip));
    only_encoding(&tip.encode(), |b| state::Tip::decode(b).ok());
    let set = samples::validator_set();
    let value = state::encode_validators(&set);
    assert_eq!(state::decode_validators(&value), Ok(set));
    assert!(state::decode_validators(&value[..value.len() - 1]).is_err());
}
