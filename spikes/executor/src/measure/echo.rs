//! The application behind the hop: answers each request with the same 1 KiB, from one thread.

use crate::net;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::net::{RecvFlags, SendFlags};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::thread;

/// The bytes of every answer.
pub static ANSWER: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let head = "HTTP/1.1 200 OK\r\nserver: echo\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
                content-type: application/octet-stream\r\ncontent-length: 1024\r\n\r\n";
    let mut answer = Vec::from(head.as_bytes());
    answer.resize(head.len() + 1024, b'x');
    answer
});
const LISTENER: u64 = u64::MAX;

/// Starts the thread on `cpu`; it lives as long as the process.
///
/// # Errors
/// When no port can be had.
pub fn start(cpu: usize) -> io::Result<SocketAddr> {
    let (listener, bound) = net::listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    thread::spawn(move || super::pin(cpu).and_then(|()| run(&listener)));
    Ok(bound)
}

fn run(listener: &OwnedFd) -> io::Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(
        &epoll,
        listener,
        epoll::EventData::new_u64(LISTENER),
        epoll::EventFlags::IN,
    )?;
    let mut streams = HashMap::new();
    let mut events = Vec::with_capacity(256);
    for number in 0_u64.. {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let key = event.data.u64();
            if key != LISTENER {
                if streams.get(&key).is_some_and(|stream| !answer(stream)) {
                    streams.remove(&key);
                }
                continue;
            }
            let Some(stream) = net::accept(listener)? else {
                continue;
            };
            epoll::add(
                &epoll,
                &stream,
                epoll::EventData::new_u64(number),
                epoll::EventFlags::IN,
            )?;
            streams.insert(number, stream);
        }
    }
    Ok(())
}

/// Answers the request that is there (the load never pipelines); whether the stream lives on.
fn answer(stream: &OwnedFd) -> bool {
    let mut buffer = [0; 4096];
    match rustix::net::recv(stream, &mut buffer[..], RecvFlags::empty()) {
        Ok((count, _)) if buffer[..count].ends_with(b"\r\n\r\n") => {
            rustix::net::send(stream, &ANSWER, SendFlags::NOSIGNAL) == Ok(ANSWER.len())
        }
        Err(rustix::io::Errno::AGAIN) => true,
        Ok(_) | Err(_) => false,
    }
}
