//! A stream: segment files to which frames of records are appended.
//!
//! Two streams make the store: `values` and `pages`. Segment n is the file `<stream>-<n>.<g>`, g
//! its generation. All numbers are little-endian, nothing is aligned or padded.
//!
//! | frame | bytes |
//! |---|---|
//! | magic `LTSF` | 4 |
//! | kind (1 values, 2 pages), subtree, 2 zero bytes | 4 |
//! | incarnation, segment, offset of this frame, payload bytes | 4 each |
//! | version | 8 |
//! | CRC-32C of the payload, CRC-32C of the 36 bytes before | 4 each |
//! | payload: records | |
//!
//! | record | bytes |
//! |---|---|
//! | body bytes, as a varint | 1 to 4 |
//! | body | |
//! | CRC-32C of (kind:1, segment:4, offset of the record:4, body) | 4 |
//!
//! A record's checksum binds it to its place, so that a stale or misdirected copy is no record.
//! Frames are for recovery and scans; readers go to records directly. Crash story: appended bytes
//! count only from the commit record on that names the stream's new end; what a crash leaves
//! beyond the last named end is never read; the next incarnation begins new segments.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use crate::bytes::{put_varint, take_varint};
use crate::disk::{Disk, Mode, failed};
use crate::location::{Location, SEGMENT_BYTES_MAX};
use crate::segment::Segment;
use crate::{StoreError, Version};

const MAGIC: [u8; 4] = *b"LTSF";
/// Bytes of a frame's header.
pub const FRAME_HEADER: usize = 40;
/// Most bytes of a record's body: the longest value with its key and links.
pub const BODY_BYTES_MAX: usize = crate::VALUE_BYTES_MAX + 4 * crate::KEY_BYTES_MAX;
/// What a read asks for at first; most records are shorter.
const FIRST_READ: usize = 512;

/// Which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Values of keys.
    Values,
    /// Pages of the index.
    Pages,
}

impl Kind {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Pages => "pages",
        }
    }

    pub(crate) fn tag(self) -> u8 {
        match self {
            Self::Values => 1,
            Self::Pages => 2,
        }
    }

    /// The file of a segment.
    pub(crate) fn file(self, segment: u32, generation: u32) -> String {
        format!("{}-{segment:07}.{generation}", self.name())
    }
}

/// Bytes to be written at one place of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    segment: u32,
    offset: u32,
    bytes: Vec<u8>,
}

/// Frames of a commit before they are on disk.
#[derive(Debug, Clone)]
pub struct Appender {
    kind: Kind,
    incarnation: u32,
    segment_bytes: u32,
    pieces: Vec<Piece>,
    /// Start of the open frame in the last piece.
    frame: Option<usize>,
    label: (Version, u8),
    /// CRC-32C over the checksums of all closed frames.
    digest: u32,
    body: Vec<u8>,
}

fn record_crc(kind: Kind, at: Location, body: &[u8]) -> u32 {
    let [a, b, c, d] = at.segment().to_le_bytes();
    let [e, f, g, h] = at.offset().to_le_bytes();
    crc32c::crc32c_append(crc32c::crc32c(&[kind.tag(), a, b, c, d, e, f, g, h]), body)
}

impl Appender {
    /// Frames after `end`, the stream's end so far.
    pub fn new(kind: Kind, incarnation: u32, segment_bytes: u32, end: Location) -> Self {
        let (segment, offset) = (end.segment(), end.offset());
        let piece = Piece { segment, offset, bytes: Vec::new() };
        Self {
            kind,
            incarnation,
            segment_bytes: segment_bytes.min(SEGMENT_BYTES_MAX - 1),
            pieces: vec![piece],
            frame: None,
            label: (0, 0),
            digest: 0,
            body: Vec::new(),
        }
    }

    /// Starts the frame of a subtree; the one before is closed.
    pub fn frame(&mut self, version: Version, subtree: u8) {
        self.close();
        self.label = (version, subtree);
    }

    /// Appends a record with the body that `encode` appends to nothing: its place, and the body's
    /// bytes; none if the stream is full.
    pub fn encode(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Option<(Location, u64)> {
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        encode(&mut body);
        let at = self.record(&body);
        let bytes = body.len() as u64;
        self.body = body;
        Some((at?, bytes))
    }

    /// Appends a record to the frame; none if the stream is full.
    pub fn record(&mut self, body: &[u8]) -> Option<Location> {
        let needed = body.len() + 8 + if self.frame.is_none() { FRAME_HEADER } else { 0 };
        let piece = self.pieces.last()?;
        let (used, segment) = (piece.offset as usize + piece.bytes.len(), piece.segment);
        // A record longer than a whole segment still gets one of its own, up to the hard limit.
        if used > 0 && used + needed > self.segment_bytes as usize {
            self.close();
            self.pieces.push(Piece { segment: segment + 1, offset: 0, bytes: Vec::new() });
        }
        let piece = self.pieces.last_mut()?;
        if self.frame.is_none() {
            self.frame = Some(piece.bytes.len());
            piece.bytes.extend_from_slice(&[0; FRAME_HEADER]);
        }
        let at = Location::new(piece.segment, piece.offset + piece.bytes.len() as u32)?;
        put_varint(&mut piece.bytes, body.len() as u64);
        piece.bytes.extend_from_slice(body);
        piece.bytes.extend_from_slice(&record_crc(self.kind, at, body).to_le_bytes());
        Some(at)
    }

    /// Completes the open frame's header.
    fn close(&mut self) {
        let (Some(start), Some(piece)) = (self.frame.take(), self.pieces.last_mut()) else {
            return;
        };
        let offset = piece.offset + start as u32;
        let Some((header, payload)) =
            piece.bytes.get_mut(start..).and_then(|bytes| bytes.split_at_mut_checked(FRAME_HEADER))
        else {
            return;
        };
        let (version, subtree) = self.label;
        let mut fields = Vec::with_capacity(FRAME_HEADER);
        fields.extend_from_slice(&MAGIC);
        fields.extend_from_slice(&[self.kind.tag(), subtree, 0, 0]);
        for number in [self.incarnation, piece.segment, offset, payload.len() as u32] {
            fields.extend_from_slice(&number.to_le_bytes());
        }
        fields.extend_from_slice(&version.to_le_bytes());
        fields.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        let crc = crc32c::crc32c(&fields);
        fields.extend_from_slice(&crc.to_le_bytes());
        self.digest = crc32c::crc32c_append(self.digest, &crc.to_le_bytes());
        header.copy_from_slice(&fields);
    }

    /// All frames, with the stream's new end and the digest of the frames' checksums.
    pub fn finish(mut self) -> (Vec<Piece>, Option<Location>, u32) {
        self.close();
        let end = self.pieces.last().and_then(|piece| {
            Location::new(piece.segment, piece.offset + piece.bytes.len() as u32)
        });
        (self.pieces, end, self.digest)
    }
}

/// A record's body in the bytes that start at its place: the body and what the whole record takes;
/// none if more bytes are needed than are there.
fn body(kind: Kind, at: Location, bytes: &[u8]) -> Result<Option<&[u8]>, StoreError> {
    let corrupt = |what: &str| {
        let name = kind.name();
        Err(StoreError::Corrupt(format!("{name} record at {at:?}: {what}")))
    };
    let mut rest = bytes;
    let Some(length) = take_varint(&mut rest) else {
        return if bytes.len() < 5 { Ok(None) } else { corrupt("no length") };
    };
    let Some(length) = usize::try_from(length).ok().filter(|length| *length <= BODY_BYTES_MAX)
    else {
        return corrupt("its length is above the limit");
    };
    let Some((body, rest)) = rest.split_at_checked(length) else { return Ok(None) };
    let Some(crc) = rest.first_chunk() else { return Ok(None) };
    if u32::from_le_bytes(*crc) != record_crc(kind, at, body) {
        return corrupt("its checksum is wrong");
    }
    Ok(Some(body))
}

/// The record that starts with `bytes` and has this body.
fn raw<'a>(bytes: &'a [u8], body: &[u8]) -> &'a [u8] {
    let mut length = Vec::with_capacity(5);
    put_varint(&mut length, body.len() as u64);
    bytes.get(..length.len() + body.len() + 4).unwrap_or_default()
}

/// Payload bytes of the frame that starts with `bytes`, and the header's checksum; none if it is
/// no frame of this place.
fn frame(kind: Kind, at: Location, bytes: &[u8]) -> Option<(usize, [u8; 4])> {
    let header = bytes.get(..FRAME_HEADER)?;
    let (fields, crc) = header.split_last_chunk::<4>()?;
    let number = |from: usize| {
        let bytes = fields.get(from..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let sound = crc32c::crc32c(fields) == u32::from_le_bytes(*crc)
        && fields.starts_with(&MAGIC)
        && fields.get(4) == Some(&kind.tag())
        && number(12)? == at.segment()
        && number(16)? == at.offset();
    sound.then(|| number(20)).flatten().map(|bytes| (bytes as usize, *crc))
}

/// Generation of a segment that is no longer there.
pub const DROPPED: u32 = u32::MAX;

/// Generations of the segments that are not as they were written.
pub type Generations = BTreeMap<u32, u32>;

/// The segments of a stream.
pub struct Stream {
    disk: Arc<dyn Disk>,
    pub(crate) kind: Kind,
    segments: RwLock<Segments>,
}

struct Segments {
    generations: Generations,
    open: BTreeMap<u32, Arc<Segment>>,
}

impl Stream {
    /// The stream on a disk; its files are opened when they are needed.
    pub fn new(disk: Arc<dyn Disk>, kind: Kind, generations: Generations) -> Self {
        Self { disk, kind, segments: RwLock::new(Segments { generations, open: BTreeMap::new() }) }
    }

    /// The stream's files: name, segment, generation.
    pub(crate) fn files(&self) -> Result<Vec<(String, u32, u32)>, StoreError> {
        let names = self.disk.list().map_err(failed(self.kind.name()))?;
        let parse = |name: String| {
            let number = name.strip_prefix(self.kind.name())?.strip_prefix('-')?;
            let (segment, generation) = number.split_once('.')?;
            let (segment, generation) = (segment.parse().ok()?, generation.parse().ok()?);
            Some((name, segment, generation))
        };
        Ok(names.into_iter().filter_map(parse).collect())
    }

    /// Deletes the files of the segments and generations that are `old`; how many bytes went.
    pub(crate) fn delete(&self, old: impl Fn(u32, u32) -> bool) -> Result<u64, StoreError> {
        let mut bytes = 0;
        for (name, segment, generation) in self.files()? {
            if old(segment, generation) {
                let file = self.disk.open(&name, Mode::Read).map_err(failed(&name))?;
                bytes += file.len().map_err(failed(&name))?;
                self.disk.unlink(&name).map_err(failed(&name))?;
            }
        }
        Ok(bytes)
    }

    fn failed(&self, segment: u32, error: io::Error) -> StoreError {
        failed(&self.kind.file(segment, self.generation(segment)))(error)
    }

    fn segments(&self) -> RwLockWriteGuard<'_, Segments> {
        self.segments.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which generation of a segment is in force.
    pub(crate) fn generation(&self, segment: u32) -> u32 {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments.generations.get(&segment).copied().unwrap_or_default()
    }

    /// Generations of the segments that are not as they were written.
    pub(crate) fn generations(&self) -> Generations {
        self.segments.read().unwrap_or_else(PoisonError::into_inner).generations.clone()
    }

    /// Puts other generations in force. Who reads a segment reads on in the file that he has.
    pub(crate) fn switch(&self, generations: Generations) {
        let mut segments = self.segments();
        let Segments { generations: before, open } = &mut *segments;
        open.retain(|segment, _| before.get(segment) == generations.get(segment));
        *before = generations;
    }

    pub(crate) fn segment(&self, number: u32) -> Result<Arc<Segment>, StoreError> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(segment) = segments.open.get(&number) {
            return Ok(Arc::clone(segment));
        }
        drop(segments);
        // Opened under the lock, so that no other generation comes into force meanwhile.
        let mut segments = self.segments();
        let generation = segments.generations.get(&number).copied().unwrap_or_default();
        if generation == DROPPED {
            let name = self.kind.name();
            return Err(StoreError::Corrupt(format!("{name}: segment {number} was pruned")));
        }
        let segment = Arc::new(Segment::open(&*self.disk, self.kind, number, generation)?);
        segments.open.insert(number, Arc::clone(&segment));
        Ok(segment)
    }

    /// Writes and syncs a commit's frames; true if there are new names, which are not yet durable.
    pub fn write(&self, pieces: &[Piece]) -> Result<bool, StoreError> {
        let mut created = false;
        for piece in pieces.iter().filter(|piece| !piece.bytes.is_empty()) {
            let fail = |error: io::Error| self.failed(piece.segment, error);
            let file = if piece.offset == 0 {
                created = true;
                let opened = self.disk.open(&self.kind.file(piece.segment, 0), Mode::Create);
                let file = opened.map_err(fail)?;
                let segment = Arc::new(Segment::plain(Arc::clone(&file)));
                self.segments().open.insert(piece.segment, segment);
                file
            } else {
                Arc::clone(&self.segment(piece.segment)?.file)
            };
            file.write_at(u64::from(piece.offset), &piece.bytes).map_err(fail)?;
            file.sync().map_err(fail)?;
        }
        Ok(created)
    }

    /// Calls `each` with every record of the frames from `start`, a frame's place, to `end`, and
    /// returns the digest of the frames' checksums.
    ///
    /// # Errors
    /// `Corrupt` at a frame or record that is none; what `each` returns.
    pub fn records(
        &self,
        start: Location,
        end: Location,
        each: &mut impl FnMut(Location, &[u8]) -> Result<(), StoreError>,
    ) -> Result<u32, StoreError> {
        let (mut from, mut digest) = (start, 0);
        while from < end {
            let segment = from.segment();
            let file = Arc::clone(&self.segment(segment)?.file);
            let fail = |error: io::Error| self.failed(segment, error);
            let len = file.len().map_err(fail)?.min(SEGMENT_BYTES_MAX.into()) as u32;
            let to = if segment == end.segment() { end.offset().min(len) } else { len };
            let mut bytes = vec![0; to.saturating_sub(from.offset()) as usize];
            file.read_at(from.offset().into(), &mut bytes).map_err(fail)?;
            digest = self.frames(from, &bytes, digest, each)?;
            from = Location::new(segment + 1, 0).unwrap_or(end);
        }
        Ok(digest)
    }

    fn frames(
        &self,
        start: Location,
        mut rest: &[u8],
        mut digest: u32,
        each: &mut impl FnMut(Location, &[u8]) -> Result<(), StoreError>,
    ) -> Result<u32, StoreError> {
        let all = rest.len();
        while !rest.is_empty() {
            let offset = start.offset() + (all - rest.len()) as u32;
            let at = Location::new(start.segment(), offset).unwrap_or(start);
            let corrupt = |what: &str| {
                StoreError::Corrupt(format!("{} frame at {at:?}: {what}", self.kind.name()))
            };
            let (payload, crc) = frame(self.kind, at, rest).ok_or_else(|| corrupt("it is none"))?;
            digest = crc32c::crc32c_append(digest, &crc);
            let (mut own, after) = rest
                .get(FRAME_HEADER..)
                .and_then(|rest| rest.split_at_checked(payload))
                .ok_or_else(|| corrupt("it ends early"))?;
            while !own.is_empty() {
                let offset = offset + (FRAME_HEADER + payload - own.len()) as u32;
                let at = Location::new(start.segment(), offset).unwrap_or(start);
                let record = body(self.kind, at, own)?.ok_or_else(|| corrupt("a torn record"))?;
                each(at, record)?;
                own = own.get(raw(own, record).len()..).unwrap_or_default();
            }
            rest = after;
        }
        Ok(digest)
    }

    /// Gives `each` the body of the record at a place before `end`.
    pub fn with<T>(
        &self,
        at: Location,
        end: Location,
        each: impl FnOnce(&[u8]) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with_raw(at, end, |body, _| each(body))
    }

    /// Gives `each` the body of the record at a place before `end`, and all of the record.
    pub(crate) fn with_raw<T>(
        &self,
        at: Location,
        end: Location,
        each: impl FnOnce(&[u8], &[u8]) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let corrupt = |what: &str| {
            StoreError::Corrupt(format!("{} record at {at:?}: {what}", self.kind.name()))
        };
        if at >= end {
            return Err(corrupt("it is beyond the end"));
        }
        let segment = self.segment(at.segment())?;
        let fail = |error: io::Error| self.failed(at.segment(), error);
        let place = segment.place(at.offset()).ok_or_else(|| corrupt("it was pruned"))?;
        let offset = u64::from(place);
        // What is before `end` is there; an older segment's length must be asked for.
        let there = if at.segment() == end.segment() && !segment.is_compacted() {
            end.offset() - at.offset()
        } else {
            segment.sealed_len().map_err(fail)?.saturating_sub(place)
        } as usize;
        let mut first = [0; FIRST_READ];
        let first = &mut first[..FIRST_READ.min(there)];
        segment.file.read_at(offset, first).map_err(fail)?;
        if let Some(body) = body(self.kind, at, first)? {
            return each(body, raw(first, body));
        }
        let mut head = &first[..];
        let length = take_varint(&mut head).and_then(|length| usize::try_from(length).ok());
        let whole = length.map(|length| first.len() - head.len() + length + 4);
        let whole =
            whole.filter(|whole| *whole <= there).ok_or_else(|| corrupt("it ends early"))?;
        let mut bytes = vec![0; whole];
        segment.file.read_at(offset, &mut bytes).map_err(fail)?;
        let body = body(self.kind, at, &bytes)?.ok_or_else(|| corrupt("it ends early"))?;
        each(body, raw(&bytes, body))
    }

    /// The body of the record at a place before `end`.
    pub fn read(&self, at: Location, end: Location) -> Result<Vec<u8>, StoreError> {
        self.with(at, end, |body| Ok(body.to_vec()))
    }
}

/// Body of a record that is not yet on disk.
pub fn read_pending(kind: Kind, pieces: &[Piece], at: Location) -> Result<Vec<u8>, StoreError> {
    let found = pieces.iter().find_map(|piece| {
        let start = at.offset().checked_sub(piece.offset)?;
        let there = piece.segment == at.segment();
        there.then(|| piece.bytes.get(start as usize..)).flatten()
    });
    let bytes = found.unwrap_or_default();
    let missing =
        || StoreError::Corrupt(format!("{} record at {at:?}: it is not there", kind.name()));
    Ok(body(kind, at, bytes)?.ok_or_else(missing)?.to_vec())
}
