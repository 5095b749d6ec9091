//! An application of our own: takes any upgrade and sends back what it gets, and sends bodies in
//! chunks back chunk by chunk, while they come, with their trailers. Asked by the visits.

use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Runs until the program ends.
pub(super) struct Origin {
    pub(super) address: SocketAddr,
}

impl Origin {
    /// Listens, with a thread per connection: visitors are few.
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A connection that breaks is the visitor's to report.
                thread::spawn(move || drop(serve(&stream)));
            }
        });
        Ok(Self { address })
    }
}

fn serve(stream: &TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let head = read_head(&mut reader)?;
        if head.is_empty() {
            return Ok(());
        }
        if head.to_ascii_lowercase().contains("\nupgrade:") {
            let answer = "HTTP/1.1 101 Switching Protocols\r\n\
                          connection: upgrade\r\nupgrade: websocket\r\n\r\n";
            writer.write_all(answer.as_bytes())?;
            return tunnel(&mut reader, writer);
        }
        writer.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
        let trailers = loop {
            let chunk = read_chunk(&mut reader)?;
            if chunk.is_empty() {
                break read_head(&mut reader)?;
            }
            write_chunk(writer, &chunk)?;
        };
        writer.write_all(format!("0\r\n{trailers}").as_bytes())?;
    }
}

fn tunnel(reader: &mut impl Read, mut writer: &TcpStream) -> Result<()> {
    let mut bytes = [0; 4096];
    loop {
        match reader.read(&mut bytes)? {
            0 => return Ok(()),
            count => writer.write_all(&bytes[..count])?,
        }
    }
}

/// Lines up to and with the blank one; empty if nothing came.
pub(super) fn read_head(reader: &mut impl BufRead) -> Result<String> {
    let mut head = String::new();
    while reader.read_line(&mut head)? > 0 && head != "\r\n" && !head.ends_with("\r\n\r\n") {}
    Ok(head)
}

/// The payload of the next chunk; empty for the last one, whose trailers come next.
pub(super) fn read_chunk(reader: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let size = usize::from_str_radix(line.trim_end(), 16).map_err(|_| malformed())?;
    let mut payload = vec![0; size];
    reader.read_exact(&mut payload)?;
    if size > 0 {
        reader.read_line(&mut line)?;
    }
    Ok(payload)
}

/// One chunk in one write.
pub(super) fn write_chunk(mut writer: &TcpStream, payload: &[u8]) -> Result<()> {
    let mut chunk = format!("{:x}\r\n", payload.len()).into_bytes();
    chunk.extend_from_slice(payload);
    chunk.extend_from_slice(b"\r\n");
    writer.write_all(&chunk)
}

fn malformed() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, "no size of a chunk")
}
