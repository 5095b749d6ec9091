//! The TLS 1.3 record layer (RFC 8446 §5): one direction's key, nonces, framing. Works in the
//! caller's buffers and allocates nothing. Called by [`super::Tls`] only.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce};
use aws_lc_rs::aead::{Algorithm, UnboundKey};
use rustls::ConnectionTrafficSecrets;
use std::io::{self, IoSlice};

/// Type, legacy version, length.
pub(crate) const HEADER: usize = 5;
/// Plaintext in one record.
const PAYLOAD_MAX: usize = 16_384;
/// Type byte, padding and tag may add this much (RFC 8446 §5.2).
const EXPANSION_MAX: usize = 256;
const TAG: usize = 16;
/// Records sealed with one AES-GCM key before it is replaced: half of the 2^24.5 of RFC 8446 §5.5.
const RECORDS_PER_KEY: u64 = 1 << 23;
const OUTER_TYPE: u8 = 23;

/// How long the first record in `raw` is, header included; `None` while it is incomplete.
pub(crate) fn length(raw: &[u8]) -> io::Result<Option<usize>> {
    let [kind, major, _, high, low, ..] = *raw else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if kind != OUTER_TYPE || major != 3 || length > PAYLOAD_MAX + EXPANSION_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok((raw.len() >= HEADER + length).then_some(HEADER + length))
}

/// One direction's key and place in the sequence.
struct Direction {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Direction {
    fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> io::Result<Self> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        let key = Self::key(algorithm, key.as_ref())?;
        let iv = iv
            .as_ref()
            .try_into()
            .map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(Self { key, iv, sequence })
    }

    fn key(algorithm: &'static Algorithm, bytes: &[u8]) -> io::Result<LessSafeKey> {
        let key = UnboundKey::new(algorithm, bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(LessSafeKey::new(key))
    }

    /// The nonce of the next record (RFC 8446 §5.3). Invariant: never the same twice.
    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, sequence) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= sequence;
        }
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Opens what the peer sealed.
pub(crate) struct Opener(Direction);

impl Opener {
    pub(crate) fn new(secrets: (u64, ConnectionTrafficSecrets)) -> io::Result<Self> {
        Direction::new(secrets).map(Self)
    }

    /// Opens one whole record in place: its true type and the length of its payload, which begins
    /// at [`HEADER`].
    pub(crate) fn open(&mut self, record: &mut [u8]) -> io::Result<(u8, usize)> {
        let nonce = self.0.nonce();
        let (header, sealed) = record.split_at_mut(HEADER);
        let opened = self.0.key.open_in_place(nonce, Aad::from(&*header), sealed);
        let plain = opened.map_err(|_| io::ErrorKind::InvalidData)?;
        // Padding: zeros behind the type byte. Nothing but zeros is an error.
        let end = plain
            .iter()
            .rposition(|byte| *byte != 0)
            .ok_or(io::ErrorKind::InvalidData)?;
        if end > PAYLOAD_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok((plain[end], end))
    }
}

/// Seals what we send.
pub(crate) struct Sealer {
    direction: Direction,
    /// When the key is to be replaced.
    sequence_max: u64,
}

impl Sealer {
    pub(crate) fn new(secrets: (u64, ConnectionTrafficSecrets)) -> io::Result<Self> {
        Ok(Self {
            direction: Direction::new(secrets)?,
            sequence_max: RECORDS_PER_KEY,
        })
    }

    /// Whether the key has sealed as much as it may.
    pub(crate) fn is_worn(&self) -> bool {
        self.direction.sequence >= self.sequence_max
    }

    /// Makes the key as old as it may become.
    #[cfg(test)]
    pub(crate) fn wear_out(&mut self) {
        self.sequence_max = 0;
    }

    /// Seals `slices` as one message of `kind`, in full records but for the last.
    pub(crate) fn seal(
        &mut self,
        kind: u8,
        slices: &[IoSlice<'_>],
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let mut start = self.begin(out);
        for slice in slices {
            let mut rest: &[u8] = slice;
            while !rest.is_empty() {
                let room = PAYLOAD_MAX - (out.len() - start - HEADER);
                if room == 0 {
                    self.end(kind, start, out)?;
                    start = self.begin(out);
                    continue;
                }
                let (now, later) = rest.split_at(room.min(rest.len()));
                out.extend_from_slice(now);
                rest = later;
            }
        }
        self.end(kind, start, out)
    }

    #[expect(clippy::unused_self, reason = "the pair of `end`")]
    fn begin(&self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.extend_from_slice(&[OUTER_TYPE, 3, 3, 0, 0]);
        start
    }

    fn end(&mut self, kind: u8, start: usize, out: &mut Vec<u8>) -> io::Result<()> {
        out.push(kind);
        let sealed = out.len() - start - HEADER + TAG;
        let length = u16::try_from(sealed).map_err(|_| io::ErrorKind::InvalidInput)?;
        out[start + 3..start + HEADER].copy_from_slice(&length.to_be_bytes());
        let nonce = self.direction.nonce();
        let (header, plain) = out[start..].split_at_mut(HEADER);
        let tag = self
            .direction
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(&*header), plain);
        let tag = tag.map_err(|_| io::ErrorKind::InvalidData)?;
        out.extend_from_slice(tag.as_ref());
        Ok(())
    }
}
