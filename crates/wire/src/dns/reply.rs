//! Writes the answer to a query, record by record, never beyond what the client takes. Used by the
//! proxy's name server. What does not fit is left out, and the answer says so.

use std::net::IpAddr;

use super::{Code, HEADER_BYTES, INTERNET, Kind, Name, Query, Section, UDP_BYTES_MAX, flag};

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
/// The question's name, which all answers but relayed ones are about.
const ASKED: [u8; POINTER_BYTES] = (POINTER | HEADER_BYTES as u16).to_be_bytes();

/// Among the hosts of a service, none comes before another, and all get as much.
const PRIORITY: u16 = 0;
const WEIGHT: u16 = 1;

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
    /// Records by section.
    counts: [u16; 3],
}

/// A name that an answer has, and what else is known of it goes with the answer.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// `None` if it lies beyond what a pointer reaches.
    pointer: Option<u16>,
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
            counts: [0; 3],
        }
    }

    /// Says that it comes from who decides about the name.
    pub fn set_authoritative(&mut self) {
        self.flags |= flag::AUTHORITATIVE;
    }

    /// Adds an address of the name; false if there is no room for it, which the answer then says.
    pub fn address(&mut self, ip: IpAddr, ttl_seconds: u32) -> bool {
        match ip {
            IpAddr::V4(ip) => self.answer(Kind::A, ttl_seconds, &[&ip.octets()]),
            IpAddr::V6(ip) => self.answer(Kind::AAAA, ttl_seconds, &[&ip.octets()]),
        }
    }

    /// Adds a name of what was asked for; false as above.
    pub fn pointer(&mut self, name: Name<'_>, ttl_seconds: u32) -> bool {
        self.answer(Kind::PTR, ttl_seconds, &[name.wire()])
    }

    /// Adds a host and port of the service (RFC 2782); `None` where others say false.
    pub fn service(&mut self, host: Name<'_>, port: u16, ttl_seconds: u32) -> Option<Target> {
        let numbers = [PRIORITY, WEIGHT, port].map(u16::to_be_bytes);
        let data = [numbers.as_flattened(), host.wire()];
        if !self.answer(Kind::SRV, ttl_seconds, &data) {
            return None;
        }
        let at = u16::try_from(self.out.len() - host.wire().len() - self.start).ok();
        let pointer = at.filter(|at| *at < POINTER).map(|at| POINTER | at);
        Some(Target { pointer })
    }

    /// Adds an address that will be wanted next; false if there is no room for it.
    pub fn address_of(&mut self, target: Target, ip: IpAddr, ttl_seconds: u32) -> bool {
        let Some(pointer) = target.pointer else {
            return false;
        };
        let owner = pointer.to_be_bytes();
        let mut add = |kind, octets: &[u8]| {
            self.record(Section::Additional, owner, (kind, ttl_seconds), &[octets])
        };
        match ip {
            IpAddr::V4(ip) => add(Kind::A, &ip.octets()),
            IpAddr::V6(ip) => add(Kind::AAAA, &ip.octets()),
        }
    }

    /// Adds a whole record as it is, but for its time to live; false if there is no room for it.
    pub(super) fn copy(
        &mut self,
        section: Section,
        record: &[u8],
        ttl_at: usize,
        ttl: u32,
    ) -> bool {
        if self.out.len() + record.len() > self.end_max {
            // Who lacks the reason that there is nothing lacks the answer.
            let is_needed = match section {
                Section::Answer => true,
                Section::Authority => self.counts[Section::Answer as usize] == 0,
                Section::Additional => false,
            };
            self.flags |= if is_needed { flag::TRUNCATED } else { 0 };
            return false;
        }
        let ttl_at = self.out.len() + ttl_at;
        self.out.extend_from_slice(record);
        self.out[ttl_at..ttl_at + size_of::<u32>()].copy_from_slice(&ttl.to_be_bytes());
        self.counts[section as usize] += 1;
        true
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
        self.record(Section::Authority, zone, (Kind::SOA, ttl_seconds), &data);
    }

    /// Whether there was room; if not, the answer says so.
    fn answer(&mut self, kind: Kind, ttl_seconds: u32, data: &[&[u8]]) -> bool {
        let fits = self.record(Section::Answer, ASKED, (kind, ttl_seconds), data);
        self.flags |= if fits { 0 } else { flag::TRUNCATED };
        fits
    }

    /// Whether there was room.
    fn record(
        &mut self,
        section: Section,
        owner: [u8; POINTER_BYTES],
        (kind, ttl_seconds): (Kind, u32),
        data: &[&[u8]],
    ) -> bool {
        const FIXED: usize = POINTER_BYTES + 10;
        let later = &self.counts[section as usize + 1..];
        debug_assert!(
            later.iter().all(|count| *count == 0),
            "sections have an order"
        );
        let length: usize = data.iter().map(|part| part.len()).sum();
        if self.out.len() + FIXED + length > self.end_max {
            return false;
        }
        self.out.extend_from_slice(&owner);
        for word in [kind.0, INTERNET] {
            self.out.extend_from_slice(&word.to_be_bytes());
        }
        self.out.extend_from_slice(&ttl_seconds.to_be_bytes());
        // Invariant: our own records have a few bytes, and a name or two.
        self.out.extend_from_slice(&(length as u16).to_be_bytes());
        data.iter()
            .for_each(|part| self.out.extend_from_slice(part));
        self.counts[section as usize] += 1;
        true
    }

    /// Completes it.
    pub fn finish(self) {
        let [answers, authorities, additional] = self.counts;
        let additional = additional + u16::from(self.query.edns.is_some());
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
            answers,
            authorities,
            additional,
        ];
        let header = &mut self.out[self.start..self.start + HEADER_BYTES];
        for (place, word) in header.chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }
}
