//! The walk over the bytes of a message (protocol buffers' wire format), field by field. Goes into
//! messages that a table names, passes over everything else. Bounded in depth and in messages.

use super::google::ANY;
use super::{Field, Message, Notes, Rule};
use crate::error::Error;
use crate::place::Place;

/// Deepest nesting: the deepest of ours is a SAN matcher inside a transport socket inside a filter
/// chain, at half of this. prost gives up at 100.
const DEPTH_MAX: usize = 32;

/// Most messages in one resource: ten thousand endpoints with all that is said of them take a
/// quarter. Decoded, each takes a few hundred bytes.
const MESSAGES_MAX: usize = 512 * 1024;

/// Highest tag that a table has.
const TAG_MAX: u32 = 127;

/// One walk over one resource.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) notes: Notes,
    messages: usize,
}

/// The field that was read last, and which fields were there at all.
#[derive(Default)]
struct Seen {
    tags: u128,
    tag: u32,
    index: usize,
}

impl Walk {
    /// Goes through a message that begins `depth` messages deep.
    pub(super) fn message(
        &mut self,
        bytes: &[u8],
        table: &Message,
        at: &Place<'_>,
        depth: usize,
    ) -> Result<(), Error> {
        self.messages += 1;
        if depth > DEPTH_MAX || self.messages > MESSAGES_MAX {
            return Err(Error::TooMany(at.to_string()));
        }
        let mut rest = bytes;
        let mut seen = Seen::default();
        while !rest.is_empty() {
            let (tag, value) = next(&mut rest).ok_or_else(|| Error::Malformed(at.to_string()))?;
            let Some(field) = table.fields.iter().find(|field| field.tag == tag) else {
                return Err(Error::unsupported(&at.field(&format!("#{tag}"))));
            };
            let index = seen.count(table, field, at)?;
            let place = match field.repeated {
                true => at.item(field.name, index),
                false => at.field(field.name),
            };
            self.value(value, &field.rule, &place, depth)?;
        }
        Ok(())
    }

    fn value(
        &mut self,
        value: Value<'_>,
        rule: &Rule,
        at: &Place<'_>,
        depth: usize,
    ) -> Result<(), Error> {
        let inner = || match value {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Number => Err(Error::Malformed(at.to_string())),
        };
        match rule {
            Rule::Read => Ok(()),
            Rule::Ignored => {
                self.notes.add(at);
                Ok(())
            }
            Rule::Refused => Err(Error::unsupported(at)),
            Rule::Message(table) => self.message(inner()?, table, at, depth + 1),
            Rule::Any(tables) => self.any(inner()?, tables, at, depth + 1),
            Rule::Map(rule) => self.entry(inner()?, rule, at, depth),
        }
    }

    fn any(
        &mut self,
        bytes: &[u8],
        tables: &[&Message],
        at: &Place<'_>,
        depth: usize,
    ) -> Result<(), Error> {
        self.message(bytes, &ANY, at, depth)?;
        let type_url = String::from_utf8_lossy(find(bytes, 1));
        let name = type_url.rsplit('/').next().unwrap_or_default();
        match tables.iter().find(|table| table.name == name) {
            Some(table) => self.message(find(bytes, 2), table, at, depth),
            None => Err(Error::Type {
                path: at.to_string(),
                type_url: type_url.into_owned(),
            }),
        }
    }

    /// An entry of a map is a message with a key, which becomes part of the path, and a value.
    fn entry(
        &mut self,
        bytes: &[u8],
        rule: &Rule,
        at: &Place<'_>,
        depth: usize,
    ) -> Result<(), Error> {
        let mut rest = bytes;
        let mut seen = [false; 2];
        let key = String::from_utf8_lossy(find(bytes, 1));
        let place = at.field(&key);
        while !rest.is_empty() {
            let (tag, value) = next(&mut rest).ok_or_else(|| Error::Malformed(at.to_string()))?;
            let slot = match tag {
                1 => &mut seen[0],
                2 => &mut seen[1],
                _ => return Err(Error::unsupported(&place.field(&format!("#{tag}")))),
            };
            if std::mem::replace(slot, true) {
                return Err(Error::Twice(place.to_string()));
            }
            if tag == 2 {
                self.value(value, rule, &place, depth + 1)?;
            }
        }
        Ok(())
    }
}

impl Seen {
    /// Which of its kind this `field` is; an error if there may not be another.
    fn count(&mut self, table: &Message, field: &Field, at: &Place<'_>) -> Result<usize, Error> {
        let bit = |tag: u32| 1_u128 << tag.min(TAG_MAX);
        let excludes = table
            .oneofs
            .iter()
            .filter(|oneof| oneof.contains(&field.tag));
        let mut excluded = if field.repeated { 0 } else { bit(field.tag) };
        for tag in excludes.flat_map(|oneof| oneof.iter()) {
            excluded |= bit(*tag);
        }
        if self.tags & excluded != 0 {
            return Err(Error::Twice(at.field(field.name).to_string()));
        }
        self.index = match self.tag == field.tag {
            true => self.index + 1,
            false => 0,
        };
        self.tag = field.tag;
        self.tags |= bit(field.tag);
        Ok(self.index)
    }
}

/// The content of a field.
#[derive(Clone, Copy)]
enum Value<'a> {
    /// Of one of the wire types with a length of their own.
    Number,
    /// A text, bytes or a message.
    Bytes(&'a [u8]),
}

/// Takes one field off `rest`: its tag and content. Groups are long gone, and none of ours has one.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(u32, Value<'a>)> {
    let key = u32::try_from(varint(rest)?).ok()?;
    let tag = key >> 3;
    let value = match key & 7 {
        0 => varint(rest).map(|_| Value::Number),
        1 => take(rest, 8).map(|_| Value::Number),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            take(rest, length).map(Value::Bytes)
        }
        5 => take(rest, 4).map(|_| Value::Number),
        _ => None,
    };
    value.filter(|_| tag != 0).map(|value| (tag, value))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *take(rest, 1)?.first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            // The tenth byte has room for one bit.
            return (shift < 63 || byte < 2).then_some(value);
        }
    }
    None
}

/// The last text or bytes with that tag, as decoders take the last; empty if there is none.
fn find(bytes: &[u8], tag: u32) -> &[u8] {
    let mut rest = bytes;
    let mut found: &[u8] = &[];
    while let Some((other, value)) = next(&mut rest) {
        if let (true, Value::Bytes(bytes)) = (other == tag, value) {
            found = bytes;
        }
    }
    found
}
