//! One question to one name server: over UDP from a port and with an id that nobody can guess, over
//! TCP when the answer is cut. Whatever does not fit the question is passed over. The caller says
//! how long it may take.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use wire::dns::{Answer, Code, Kept, Question};

use super::super::answer::Transport;

/// What a datagram may have: more than we say that we take, for servers that do not listen.
const DATAGRAM_BYTES_MAX: usize = 4096;
/// Messages that do not fit, after which somebody is guessing: TCP is not to be guessed at.
const STRANGERS_MAX: usize = 32;

/// What is known to old servers: `true` is the last thing that was added (EDNS).
const EDNS: [bool; 2] = [true, false];

/// How a message over UDP ends.
enum Datagram {
    Kept(Kept),
    /// To be asked again over TCP.
    Cut,
    /// The server does not understand what we say of ourselves.
    TooNew,
}

/// Asks. An error says that this server has no answer.
pub(super) async fn ask(
    server: SocketAddr,
    question: &Question,
    transport: Transport,
) -> io::Result<Kept> {
    // Who asks us over TCP has a reason; a server that does not take it is asked as usual.
    if transport == Transport::Tcp
        && let Ok(kept) = over_tcp(server, question).await
    {
        return Ok(kept);
    }
    for edns in EDNS {
        match over_udp(server, question, edns).await? {
            Datagram::Kept(kept) => return Ok(kept),
            Datagram::Cut => return over_tcp(server, question).await,
            Datagram::TooNew => {}
        }
    }
    Err(failure("it does not understand the question"))
}

async fn over_udp(server: SocketAddr, question: &Question, edns: bool) -> io::Result<Datagram> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // The kernel chooses the port by chance, and takes no datagram from elsewhere.
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    let id = random_id()?;
    let mut query = Vec::new();
    question.write(id, edns, &mut query);
    socket.send(&query).await?;
    let mut message = vec![0; DATAGRAM_BYTES_MAX];
    for _ in 0..STRANGERS_MAX {
        let length = socket.recv(&mut message).await?;
        if let Some(answer) = Answer::parse(&message[..length])
            && answer.id == id
            && let Some(datagram) = read(&answer, question, edns)?
        {
            return Ok(datagram);
        }
    }
    Ok(Datagram::Cut)
}

/// `None` if it answers something else.
fn read(answer: &Answer<'_>, question: &Question, edns: bool) -> io::Result<Option<Datagram>> {
    let is_too_new = [Code::FormatError, Code::NotImplemented]
        .iter()
        .any(|code| *code as u16 == answer.code);
    let is_ours = question.is_answered_by(answer);
    // Who does not understand a question need not repeat it.
    if is_too_new && edns && (is_ours || answer.question.is_none()) {
        return Ok(Some(Datagram::TooNew));
    }
    if !is_ours {
        return Ok(None);
    }
    if answer.truncated {
        return Ok(Some(Datagram::Cut));
    }
    keep(answer).map(|kept| Some(Datagram::Kept(kept)))
}

fn keep(answer: &Answer<'_>) -> io::Result<Kept> {
    let failed = || failure(format!("it failed with code {}", answer.code));
    Kept::read(answer).ok_or_else(failed)
}

async fn over_tcp(server: SocketAddr, question: &Question) -> io::Result<Kept> {
    let mut stream = TcpStream::connect(server).await?;
    let id = random_id()?;
    let mut query = vec![0; 2];
    question.write(id, true, &mut query);
    let length = u16::try_from(query.len() - 2).map_err(io::Error::other)?;
    query[..2].copy_from_slice(&length.to_be_bytes());
    stream.write_all(&query).await?;
    let length = stream.read_u16().await?;
    let mut message = vec![0; length.into()];
    stream.read_exact(&mut message).await?;
    let answer = Answer::parse(&message);
    let answer = answer.filter(|it| it.id == id && question.is_answered_by(it));
    keep(&answer.ok_or_else(|| failure("it answered something else"))?)
}

fn random_id() -> io::Result<u16> {
    let mut id = [0; 2];
    aws_lc_rs::rand::fill(&mut id).map_err(|_| failure("there is no randomness"))?;
    Ok(u16::from_be_bytes(id))
}

fn failure(what: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.into())
}
