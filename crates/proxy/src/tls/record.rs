//! The record layer of TLS 1.3 (RFC 8446 §5), and of 1.2 (RFC 5246 §6.2, RFC 5288, RFC 7905) for
//! clients outside of the mesh: one direction's key, nonces, framing. Works in the caller's buffers
//! and allocates nothing. Called by [`super::Tls`] only.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce};
use aws_lc_rs::aead::{Algorithm, UnboundKey};
use rustls::{ConnectionTrafficSecrets, ProtocolVersion};
use std::io::{self, IoSlice};

/// Type, legacy version, length.
pub(crate) const HEADER: usize = 5;
/// Plaintext in one record.
const PAYLOAD_MAX: usize = 16_384;
/// Type byte, padding and tag may add this much (RFC 8446 §5.2).
const EXPANSION_MAX: usize = 256;
/// What 1.2 allows a record to be longer (RFC 5246 §6.2.3).
const EXPANSION_12_MAX: usize = 2048;
const TAG: usize = 16;
/// The part of a nonce that stands before a record of AES-GCM in 1.2 (RFC 5288 §3).
const EXPLICIT_NONCE: usize = 8;
/// Records sealed with one AES-GCM key before it is replaced: half of the 2^24.5 of RFC 8446 §5.5.
const RECORDS_PER_KEY: u64 = 1 << 23;
/// The outer type of all records of 1.3; the first and the last of those of 1.2.
const OUTER_TYPE: u8 = 23;
const TYPES_12: std::ops::RangeInclusive<u8> = 20..=23;

/// How a version of TLS makes records with a cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Tls13,
    /// 1.2 with AES-GCM: half of the nonce is sent.
    Gcm12,
    /// 1.2 with ChaCha20-Poly1305.
    ChaCha12,
}

impl Form {
    pub(crate) fn of(version: ProtocolVersion, secrets: &ConnectionTrafficSecrets) -> Self {
        match (version, secrets) {
            (ProtocolVersion::TLSv1_2, ConnectionTrafficSecrets::Chacha20Poly1305 { .. }) => {
                Self::ChaCha12
            }
            (ProtocolVersion::TLSv1_2, _) => Self::Gcm12,
            _ => Self::Tls13,
        }
    }

    /// What stands between the header and what is sealed.
    const fn prefix(self) -> usize {
        match self {
            Self::Tls13 | Self::ChaCha12 => 0,
            Self::Gcm12 => EXPLICIT_NONCE,
        }
    }
}

/// How long the first record in `raw` is, header included; `None` while it is incomplete.
pub(crate) fn length(form: Form, raw: &[u8]) -> io::Result<Option<usize>> {
    let [kind, major, _, high, low, ..] = *raw else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let (is_known, expansion) = match form {
        Form::Tls13 => (kind == OUTER_TYPE, EXPANSION_MAX),
        Form::Gcm12 | Form::ChaCha12 => (TYPES_12.contains(&kind), EXPANSION_12_MAX),
    };
    if !is_known || major != 3 || length > PAYLOAD_MAX + expansion {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok((raw.len() >= HEADER + length).then_some(HEADER + length))
}

/// One record that was opened in place.
pub(crate) struct Opened {
    /// Its true type.
    pub(crate) kind: u8,
    /// Where its payload begins, and how long it is.
    pub(crate) offset: usize,
    pub(crate) payload: usize,
}

/// One direction's key and place in the sequence.
struct Direction {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
    form: Form,
}

impl Direction {
    fn new(form: Form, (sequence, secrets): (u64, ConnectionTrafficSecrets)) -> io::Result<Self> {
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
        Ok(Self {
            key,
            iv,
            sequence,
            form,
        })
    }

    fn key(algorithm: &'static Algorithm, bytes: &[u8]) -> io::Result<LessSafeKey> {
        let key = UnboundKey::new(algorithm, bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(LessSafeKey::new(key))
    }

    /// The nonce of the next record (RFC 8446 §5.3), which with AES-GCM in 1.2 is one way of many,
    /// its second part beginning at random. Invariant: never the same twice.
    fn nonce(&mut self) -> [u8; 12] {
        let mut nonce = self.iv;
        for (byte, sequence) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= sequence;
        }
        self.sequence += 1;
        nonce
    }

    /// What the next record of 1.2 is bound to besides its content (RFC 5246 §6.2.3.3).
    fn bound_12(&self, kind: u8, payload: usize) -> [u8; 13] {
        let mut bound = [0; 13];
        bound[..8].copy_from_slice(&self.sequence.to_be_bytes());
        let length = u16::try_from(payload).unwrap_or(u16::MAX).to_be_bytes();
        bound[8..].copy_from_slice(&[kind, 3, 3, length[0], length[1]]);
        bound
    }
}

/// Opens what the peer sealed.
pub(crate) struct Opener(Direction);

impl Opener {
    pub(crate) fn new(form: Form, secrets: (u64, ConnectionTrafficSecrets)) -> io::Result<Self> {
        Direction::new(form, secrets).map(Self)
    }

    /// See [`length`].
    pub(crate) fn length(&self, raw: &[u8]) -> io::Result<Option<usize>> {
        length(self.0.form, raw)
    }

    /// Opens one whole record in place.
    pub(crate) fn open(&mut self, record: &mut [u8]) -> io::Result<Opened> {
        match self.0.form {
            Form::Tls13 => self.open_13(record),
            Form::Gcm12 | Form::ChaCha12 => self.open_12(record),
        }
    }

    fn open_13(&mut self, record: &mut [u8]) -> io::Result<Opened> {
        let nonce = Nonce::assume_unique_for_key(self.0.nonce());
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
        Ok(Opened {
            kind: plain[end],
            offset: HEADER,
            payload: end,
        })
    }

    fn open_12(&mut self, record: &mut [u8]) -> io::Result<Opened> {
        let offset = HEADER + self.0.form.prefix();
        let payload = record.len().checked_sub(offset + TAG);
        let payload = payload.ok_or(io::ErrorKind::InvalidData)?;
        if payload > PAYLOAD_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let kind = record[0];
        let bound = self.0.bound_12(kind, payload);
        let mut nonce = self.0.nonce();
        if self.0.form == Form::Gcm12 {
            // The peer counts as it likes; what it seals is bound to our own count.
            nonce[4..].copy_from_slice(&record[HEADER..offset]);
        }
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = self
            .0
            .key
            .open_in_place(nonce, Aad::from(bound), &mut record[offset..]);
        opened.map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(Opened {
            kind,
            offset,
            payload,
        })
    }
}

/// Seals what we send.
pub(crate) struct Sealer {
    direction: Direction,
    /// When the key is to be replaced.
    sequence_max: u64,
}

impl Sealer {
    pub(crate) fn new(form: Form, secrets: (u64, ConnectionTrafficSecrets)) -> io::Result<Self> {
        Ok(Self {
            direction: Direction::new(form, secrets)?,
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
        let prefix = HEADER + self.direction.form.prefix();
        let mut start = begin(prefix, out);
        for slice in slices {
            let mut rest: &[u8] = slice;
            while !rest.is_empty() {
                let room = PAYLOAD_MAX - (out.len() - start - prefix);
                if room == 0 {
                    self.end(kind, start, out)?;
                    start = begin(prefix, out);
                    continue;
                }
                let (now, later) = rest.split_at(room.min(rest.len()));
                out.extend_from_slice(now);
                rest = later;
            }
        }
        self.end(kind, start, out)
    }

    fn end(&mut self, kind: u8, start: usize, out: &mut Vec<u8>) -> io::Result<()> {
        match self.direction.form {
            Form::Tls13 => self.end_13(kind, start, out),
            Form::Gcm12 | Form::ChaCha12 => self.end_12(kind, start, out),
        }
    }

    fn end_13(&mut self, kind: u8, start: usize, out: &mut Vec<u8>) -> io::Result<()> {
        out.push(kind);
        finish_header(&mut out[start..], OUTER_TYPE, TAG)?;
        let nonce = Nonce::assume_unique_for_key(self.direction.nonce());
        let (header, plain) = out[start..].split_at_mut(HEADER);
        let key = &self.direction.key;
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(&*header), plain);
        out.extend_from_slice(tag.map_err(|_| io::ErrorKind::InvalidData)?.as_ref());
        Ok(())
    }

    fn end_12(&mut self, kind: u8, start: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let prefix = HEADER + self.direction.form.prefix();
        let bound = self.direction.bound_12(kind, out.len() - start - prefix);
        finish_header(&mut out[start..], kind, TAG)?;
        let nonce = self.direction.nonce();
        if self.direction.form == Form::Gcm12 {
            out[start + HEADER..start + prefix].copy_from_slice(&nonce[4..]);
        }
        let nonce = Nonce::assume_unique_for_key(nonce);
        let plain = &mut out[start + prefix..];
        let key = &self.direction.key;
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(bound), plain);
        out.extend_from_slice(tag.map_err(|_| io::ErrorKind::InvalidData)?.as_ref());
        Ok(())
    }
}

/// Makes room for a header and what follows it.
fn begin(prefix: usize, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.resize(start + prefix, 0);
    start
}

/// Of a record that will have `more` bytes than it has.
fn finish_header(record: &mut [u8], kind: u8, more: usize) -> io::Result<()> {
    let length = u16::try_from(record.len() - HEADER + more);
    let [high, low] = length
        .map_err(|_| io::ErrorKind::InvalidInput)?
        .to_be_bytes();
    record[..HEADER].copy_from_slice(&[kind, 3, 3, high, low]);
    Ok(())
}
