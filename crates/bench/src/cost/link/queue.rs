//! Packets handed out by the kernel to be passed or dropped: netfilter's queue over netlink
//! (linux/netfilter/nfnetlink_queue.h). Called by `link`. Asks for no byte of a packet.

use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, recv, send, sendto, socket_with, sockopt};

/// The only queue of its network.
const NUMBER: u16 = 1;
/// Packets that may wait: far more than are on a wire for 10 ms.
const LENGTH_MAX: u32 = 65_536;
/// Room for the kernel's messages while this thread has no CPU.
const SOCKET_BYTES: usize = 8 << 20;
const BUFFER_BYTES: usize = 64 << 10;

const MESSAGE_HEAD: usize = 16;
const QUEUE_HEAD: usize = 4;
const ATTRIBUTE_HEAD: usize = 4;
/// Of messages: subsystem 3 in the upper byte.
const PACKET: u16 = 3 << 8;
const VERDICT: u16 = 3 << 8 | 1;
const CONFIG: u16 = 3 << 8 | 2;
const ERROR: u16 = 2;
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
/// Of attributes.
const PACKET_HEADER: u16 = 1;
const VERDICT_HEADER: u16 = 2;
const CONFIG_COMMAND: u16 = 1;
const CONFIG_PARAMS: u16 = 2;
const CONFIG_LENGTH_MAX: u16 = 3;
const CONFIG_MASK: u16 = 4;
const CONFIG_FLAGS: u16 = 5;
/// Large segments stay whole, as they do below netem.
const KEEP_SEGMENTS: u32 = 4;
const BIND: u8 = 1;
const COPY_NO_BYTES: u8 = 1;

/// What becomes of a packet.
#[derive(Clone, Copy)]
pub(super) enum Verdict {
    Lost = 0,
    Passes = 1,
}

/// The kernel's queue.
pub(super) struct Queue {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Queue {
    /// Has the kernel put what comes in through `device` into the queue.
    ///
    /// # Errors
    /// When it cannot: no netfilter, no root.
    pub(super) fn open(device: &str) -> anyhow::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let protocol = Some(netlink::NETFILTER);
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES)?;
        let mut queue = Self {
            socket,
            buffer: vec![0; BUFFER_BYTES],
        };
        queue.configure(&attribute(CONFIG_COMMAND, &[BIND, 0, 0, 0]))?;
        let [a, b, c, d] = 0_u32.to_be_bytes();
        queue.configure(&attribute(CONFIG_PARAMS, &[a, b, c, d, COPY_NO_BYTES]))?;
        queue.configure(&attribute(CONFIG_LENGTH_MAX, &LENGTH_MAX.to_be_bytes()))?;
        let keep = KEEP_SEGMENTS.to_be_bytes();
        let flags = [
            attribute(CONFIG_FLAGS, &keep),
            attribute(CONFIG_MASK, &keep),
        ];
        queue.configure(&flags.concat())?;
        let rule = format!("-A INPUT -i {device} -j NFQUEUE --queue-num {NUMBER}");
        let output = Command::new("iptables").args(rule.split(' ')).output();
        let output = output.context("start iptables")?;
        if !output.status.success() {
            bail!(
                "iptables: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(queue)
    }

    fn configure(&mut self, attributes: &[u8]) -> anyhow::Result<()> {
        let message = message(CONFIG, REQUEST | ACKNOWLEDGE, attributes);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &message, SendFlags::empty(), &kernel)?;
        let (_, length) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
        let answer = &self.buffer[..length];
        let code = read_u32(answer, MESSAGE_HEAD).context("a short answer")?;
        ensure!(
            kind(answer) == Some(ERROR),
            "netfilter's queue says something else"
        );
        ensure!(
            code == 0,
            "netfilter's queue refuses: {}",
            code.cast_signed()
        );
        Ok(())
    }

    /// Adds the numbers of the packets that come within `wait` to `packets`; returns as soon as
    /// there are some.
    ///
    /// # Errors
    /// When the socket fails.
    pub(super) fn receive(&mut self, wait: Duration, packets: &mut Vec<u32>) -> anyhow::Result<()> {
        let timeout = Timespec::try_from(wait)?;
        let mut watched = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut watched, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        loop {
            match recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, length)) => packets.extend(numbers(&self.buffer[..length])),
                // Packets that found no room are lost, as on any link.
                Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(super) fn judge(&self, packet: u32, verdict: Verdict) {
        let verdict = [(verdict as u32).to_be_bytes(), packet.to_be_bytes()].concat();
        let message = message(VERDICT, REQUEST, &attribute(VERDICT_HEADER, &verdict));
        // The kernel reads at once; a packet that is gone already needs no verdict.
        let _ = send(&self.socket, &message, SendFlags::empty());
    }
}

fn message(kind: u16, flags: u16, attributes: &[u8]) -> Vec<u8> {
    let length = MESSAGE_HEAD + QUEUE_HEAD + attributes.len();
    let mut message = Vec::with_capacity(length);
    let length = u32::try_from(length).expect("our messages are short");
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // Sequence number and sender: the kernel fills in what it needs.
    message.extend([0; 8]);
    // Any family, version 0.
    message.extend([0; 2]);
    message.extend(NUMBER.to_be_bytes());
    message.extend(attributes);
    message
}

/// An attribute, padded to four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(ATTRIBUTE_HEAD + value.len()).expect("our attributes are short");
    let mut attribute = Vec::from(length.to_ne_bytes());
    attribute.extend(kind.to_ne_bytes());
    attribute.extend(value);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}

/// The numbers of the packets in what was received: one or more messages.
fn numbers(mut bytes: &[u8]) -> Vec<u32> {
    let mut numbers = Vec::new();
    while let Some(length) = read_u32(bytes, 0) {
        let length = (length as usize).clamp(MESSAGE_HEAD, bytes.len().max(MESSAGE_HEAD));
        let Some(message) = bytes.get(..length) else {
            break;
        };
        if kind(message) == Some(PACKET) {
            let attributes = message.get(MESSAGE_HEAD + QUEUE_HEAD..);
            numbers.extend(attributes.and_then(number));
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    numbers
}

/// The packet's number among a message's attributes.
fn number(mut attributes: &[u8]) -> Option<u32> {
    loop {
        let length = usize::from(read_u16(attributes, 0)?).max(ATTRIBUTE_HEAD);
        if read_u16(attributes, 2)? == PACKET_HEADER {
            let number = attributes.get(ATTRIBUTE_HEAD..ATTRIBUTE_HEAD + 4)?;
            return Some(u32::from_be_bytes(number.try_into().ok()?));
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn kind(message: &[u8]) -> Option<u16> {
    read_u16(message, 4)
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u32) -> Vec<u8> {
        let other = attribute(9, &[1, 2, 3]);
        let header = [&number.to_be_bytes()[..], &[8, 0, 1]].concat();
        let attributes = [other, attribute(PACKET_HEADER, &header)].concat();
        message(PACKET, 0, &attributes)
    }

    fn check(bytes: &[u8], expected: &[u32]) {
        assert_eq!(numbers(bytes), expected, "{bytes:?}");
    }

    #[test]
    fn packets_are_told_by_their_numbers() {
        check(&packet(7), &[7]);
        check(&[packet(1), packet(2)].concat(), &[1, 2]);
        check(&message(ERROR, 0, &[0; 4]), &[]);
        check(&message(PACKET, 0, &[]), &[]);
        check(&[], &[]);
    }

    #[test]
    fn what_is_cut_off_or_lies_about_its_length_is_passed_over() {
        let whole = packet(7);
        for length in 0..whole.len() - 8 {
            check(&whole[..length], &[]);
        }
        check(&[0; 64], &[]);
        check(&[0xff; 64], &[]);
    }
}
