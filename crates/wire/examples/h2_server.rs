//! A server of HTTP/2 over plain sockets, one thread per connection: it answers with the body that
//! it was sent, or with a small one of its own. For conformance suites; never part of a program.
//!
//! From the root of the repository: `cargo run -p wire --example h2_server -- 8080`, then for
//! instance `h2spec -h 127.0.0.1 -p 8080`.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use wire::h2::{Code, Config, Connection, Dialect, Event, Key, Role};
use wire::http1::RequestHead;

/// Room for the largest frame, and for what comes behind it.
const BUFFER_BYTES: usize = 32 * 1024;

fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok());
    let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0)))?;
    println!("{}", listener.local_addr()?);
    for socket in listener.incoming() {
        let socket = socket?;
        std::thread::spawn(move || serve(socket));
    }
    Ok(())
}

/// Bodies to send, by stream.
type Bodies = HashMap<Key, (Vec<u8>, bool)>;

fn serve(mut socket: TcpStream) -> std::io::Result<()> {
    let mut connection = Connection::new(&Config::new(Role::Server, Dialect::Public));
    let (mut input, mut bodies) = (Vec::new(), Bodies::new());
    let mut chunk = vec![0; BUFFER_BYTES];
    loop {
        socket.write_all(connection.output())?;
        connection.output().clear();
        let count = socket.read(&mut chunk)?;
        input.extend_from_slice(&chunk[..count]);
        let mut at = 0;
        loop {
            match connection.receive(&input[at..]) {
                Ok(received) if received.consumed == 0 => break,
                Ok(received) => {
                    at += received.consumed;
                    take(&mut connection, &mut bodies, received.event);
                }
                Err(violation) => {
                    eprintln!("{violation}");
                    socket.write_all(connection.output())?;
                    return socket.shutdown(std::net::Shutdown::Write);
                }
            }
        }
        input.drain(..at);
        pump(&mut connection, &mut bodies);
        if count == 0 {
            return Ok(());
        }
    }
}

/// Types are those of the events; every stream is answered at its end.
fn take(connection: &mut Connection, bodies: &mut Bodies, event: Event<'_>) {
    match event {
        Event::Request { stream, end } => {
            let (mut text, mut head) = (Vec::new(), RequestHead::default());
            connection.take_request(&mut text, &mut head);
            bodies.insert(stream, (Vec::new(), false));
            if end {
                answer(connection, bodies, stream);
            }
        }
        Event::Data { stream, bytes, end } => {
            connection.consumed(stream, bytes.len());
            connection.consumed_connection(bytes.len());
            if let Some((body, _)) = bodies.get_mut(&stream) {
                body.extend_from_slice(bytes);
            }
            if end {
                answer(connection, bodies, stream);
            }
        }
        Event::Trailers { stream } => answer(connection, bodies, stream),
        Event::TooLarge { stream } => {
            connection.send_status(stream, 431, b"", true);
            connection.release(stream);
        }
        Event::Reset { stream, .. } => {
            bodies.remove(&stream);
            connection.release(stream);
        }
        Event::GoAway { .. } => connection.go_away(Code::NoError),
        _ => {}
    }
}

fn answer(connection: &mut Connection, bodies: &mut Bodies, stream: Key) {
    let Some((body, answered)) = bodies.get_mut(&stream) else {
        return;
    };
    if body.is_empty() {
        body.extend_from_slice(b"hello\n");
    }
    *answered = true;
    let length = format!("content-length: {}\r\n", body.len());
    connection.send_status(stream, 200, length.as_bytes(), false);
}

/// Sends what the windows let through.
fn pump(connection: &mut Connection, bodies: &mut Bodies) {
    bodies.retain(|stream, (body, answered)| {
        if !*answered {
            return true;
        }
        let taken = connection.send_data(*stream, body, true);
        body.drain(..taken);
        let is_over = connection.is_closed(*stream);
        if is_over {
            connection.release(*stream);
        }
        !is_over
    });
}
