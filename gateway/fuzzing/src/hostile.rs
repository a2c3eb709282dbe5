//! Hostile input: valid texts and messages with pieces removed, inserted and copied.
//!
//! A fuzzer on stable Rust, as ordinary tests: nothing panics, and accepted input gets consistent answers. `make
//! fuzz` runs it for longer.

mod answers;
mod corpora;
mod objects;
mod requests;

use bytes::Bytes;
use proptest::{prelude::*, sample::Index};

/// One change of bytes.
#[derive(Debug, Clone)]
enum Mutation {
    Cut(Index, usize),
    Put(Index, &'static [u8]),
    Set(Index, u8),
    Copy(Index, usize, Index),
}

impl Mutation {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let place = |at: &Index, bytes: &[u8]| at.index(bytes.len() + 1);
        match self {
            Self::Cut(at, length) => {
                let start = place(at, bytes);
                bytes.drain(start..bytes.len().min(start + length));
            }
            Self::Put(at, piece) => {
                let start = place(at, bytes);
                bytes.splice(start..start, piece.iter().copied());
            }
            Self::Set(at, byte) => {
                let start = place(at, bytes);
                bytes.splice(start..bytes.len().min(start + 1), [*byte]);
            }
            Self::Copy(at, length, to) => {
                let start = place(at, bytes);
                let piece = bytes[start..bytes.len().min(start + length)].to_vec();
                let start = place(to, bytes);
                bytes.splice(start..start, piece);
            }
        }
    }
}

fn change(pieces: &'static [&'static [u8]]) -> impl Strategy<Value = Mutation> {
    let at = any::<Index>;
    prop_oneof![
        (at(), 0..12_usize).prop_map(|(at, length)| Mutation::Cut(at, length)),
        (at(), prop::sample::select(pieces)).prop_map(|(at, piece)| Mutation::Put(at, piece)),
        (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        (at(), 0..40_usize, at()).prop_map(|(from, length, to)| Mutation::Copy(from, length, to)),
    ]
}

/// One of `seeds` with some changes that insert `pieces`.
fn changed(seeds: Vec<Vec<u8>>, pieces: &'static [&'static [u8]]) -> impl Strategy<Value = Bytes> {
    (prop::sample::select(seeds), prop::collection::vec(change(pieces), 0..5)).prop_map(
        |(mut bytes, changes)| {
            for change in changes {
                change.apply(&mut bytes);
            }
            Bytes::from(bytes)
        },
    )
}

/// One of several JSON texts with some changes.
fn json(seeds: &[&str]) -> impl Strategy<Value = Bytes> {
    const PIECES: &[&[u8]] = &[
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\"",
        b"\\",
        b"null",
        b"null,",
        b"\"a\",",
        b"\"\\u0061\",",
        b"\\ud800",
        b"\\n",
        b"{},",
        b"[],",
        b"-1",
        b"1e999",
        b"0.5",
        b"true",
        b" \n\t",
        b"\xff",
        b"\xc3\xa9",
        b"\0",
        b"\"NodeNames\":",
        b"\"nodes\":",
        b"\"items\":",
        b"\"metadata\":",
        b"\"name\":",
        b"\"UID\":",
        b"\"uid\":\"\",",
        b"\"Pods\":[{\"UID\":\"9\"}],",
        b"\"a\":{},",
        b"\"Pod\":{},",
    ];
    changed(seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect(), PIECES)
}
