//! Writes the answer to a query, record by record, never beyond what the client takes. Used by the
//! proxy's name server. What does not fit is left out, and the answer says so.

use std::net::IpAddr;

use super::{Code, HEADER_BYTES, INTERNET, Kind, Name, Query, UDP_BYTES_MAX, flag};

/// What an OPT record without options takes.
const OPT_BYTES: usize = 11;

/// The server and the mailbox that a zone must name; neither is ever asked.
const SERVER: &[u8] = b"\x03dns";
const MAILBOX: &[u8] = b"\x0ahostmaster";
/// The zone's version, and when a second server would look for another, in seconds. There is none.
const SERIAL: u32 = 1;
const REFRESH: u32 = 7200;
const RETRY: u32 = 1800;
const EXPIRE: u32 = 86_400;

const POINTER_BYTES: usize = 2;
const POINTER: u16 = 0xc000;

/// An answer in the making. [`Self::finish`] completes it.
#[derive(Debug)]
#[must_use = "an answer without its counts is none"]
pub struct Reply<'a> {
    query: &'a Query<'a>,
    out: &'a mut Vec<u8>,
    start: usize,
    /// Where records end at the latest.
    end_max: usize,
    flags: u16,
    code: Code,
    answers: u16,
    authorities: u16,
}

impl<'a> Reply<'a> {
    /// Begins an answer of at most `bytes_max` bytes (at least [`super::UDP_BYTES_MIN`]) at the end
    /// of `out`.
    pub fn new(query: &'a Query<'a>, code: Code, bytes_max: usize, out: &'a mut Vec<u8>) -> Self {
        debug_assert!(bytes_max >= super::UDP_BYTES_MIN, "any question fits");
        debug_assert!(code != Code::BadVersion || query.edns.is_some());
        let start = out.len();
        let reserved = query.edns.map_or(0, |_| OPT_BYTES);
        out.extend_from_slice(&[0; HEADER_BYTES]);
        out.extend_from_slice(query.question);
        Self {
            query,
            out,
            start,
            end_max: start + bytes_max - reserved,
            flags: query.header.answered() | code as u16 & flag::CODE,
            code,
            answers: 0,
            authorities: 0,
        }
    }

    /// Says that it comes from who decides about the name.
    pub fn set_authoritative(&mut self) {
        self.flags |= flag::AUTHORITATIVE;
    }

    /// Adds an address of the name; false if there is no room for it, which the answer then says.
    pub fn address(&mut self, ip: IpAddr, ttl_seconds: u32) -> bool {
        let name = POINTER | HEADER_BYTES as u16;
        let fits = match ip {
            IpAddr::V4(ip) => self.record(name, Kind::A, ttl_seconds, &[&ip.octets()]),
            IpAddr::V6(ip) => self.record(name, Kind::AAAA, ttl_seconds, &[&ip.octets()]),
        };
        if fits {
            self.answers += 1;
        } else {
            self.flags |= flag::TRUNCATED;
        }
        fits
    }

    /// Says for how long the client may remember that there is nothing (RFC 2308): `zone` is who
    /// says so, which has to be the name or above it. Left out if there is no room.
    pub fn nothing_within(&mut self, zone: Name<'_>, ttl_seconds: u32) {
        let Some(at) = self.query.name.position(zone) else {
            return;
        };
        // Invariant: at most the header and a name, far below the 14 bits that a pointer has.
        let pointer = POINTER | (HEADER_BYTES + at) as u16;
        let zone = pointer.to_be_bytes();
        let numbers = [SERIAL, REFRESH, RETRY, EXPIRE, ttl_seconds].map(u32::to_be_bytes);
        let data = [SERVER, &zone, MAILBOX, &zone, numbers.as_flattened()];
        if self.record(pointer, Kind::SOA, ttl_seconds, &data) {
            self.authorities += 1;
        }
    }

    /// Whether there was room.
    fn record(&mut self, owner: u16, kind: Kind, ttl_seconds: u32, data: &[&[u8]]) -> bool {
        const FIXED: usize = POINTER_BYTES + 10;
        let length: usize = data.iter().map(|part| part.len()).sum();
        if self.out.len() + FIXED + length > self.end_max {
            return false;
        }
        for word in [owner, kind.0, INTERNET] {
            self.out.extend_from_slice(&word.to_be_bytes());
        }
        self.out.extend_from_slice(&ttl_seconds.to_be_bytes());
        // Invariant: our own records have a few bytes.
        self.out.extend_from_slice(&(length as u16).to_be_bytes());
        data.iter()
            .for_each(|part| self.out.extend_from_slice(part));
        true
    }

    /// Completes it.
    pub fn finish(self) {
        let additional = u16::from(self.query.edns.is_some());
        if let Some(edns) = self.query.edns {
            let size = (UDP_BYTES_MAX as u16).to_be_bytes();
            let signatures = if edns.signatures { 0x80 } else { 0 };
            self.out.extend_from_slice(&[0, 0, Kind::OPT.0 as u8]);
            self.out.extend_from_slice(&size);
            // The code's upper bits, version 0, flags, no options.
            let code = (self.code as u16 >> 4) as u8;
            self.out.extend_from_slice(&[code, 0, signatures, 0, 0, 0]);
        }
        let words = [
            self.query.header.id,
            self.flags,
            1,
            self.answers,
            self.authorities,
            additional,
        ];
        let header = &mut self.out[self.start..self.start + HEADER_BYTES];
        for (place, word) in header.chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }
}
