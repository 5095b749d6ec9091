//! The tables against Envoy's own `.proto` files, against our messages, and the walk by them.

mod files;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::*;
use files::{Definition, Files};

/// Our messages, as they are written.
const SOURCES: &[&str] = &[
    include_str!("../proto/cluster.rs"),
    include_str!("../proto/core.rs"),
    include_str!("../proto/discovery.rs"),
    include_str!("../proto/endpoint.rs"),
    include_str!("../proto/envoy.rs"),
    include_str!("../proto/google.rs"),
    include_str!("../proto/listener.rs"),
    include_str!("../proto/network.rs"),
    include_str!("../proto/rbac.rs"),
    include_str!("../proto/route.rs"),
    include_str!("../proto/tls.rs"),
];

/// What fields say that travel to Envoy, and that we do not read ourselves.
const ONLY_WRITTEN: &str = "/// Only written, for Envoy.";

/// What `google.protobuf` has is in no file that we could compare with.
const WELL_KNOWN: &str = "google.protobuf.";

/// All tables that can be reached from the resources.
fn tables() -> BTreeMap<&'static str, &'static Message> {
    let mut found = BTreeMap::new();
    let mut waiting: Vec<_> = Kind::ALL.into_iter().map(message).collect();
    while let Some(table) = waiting.pop() {
        if found.insert(table.name, table).is_none() {
            waiting.extend(table.fields.iter().flat_map(|field| inner(&field.rule)));
        }
    }
    found
}

fn inner(rule: &Rule) -> Vec<&'static Message> {
    match rule {
        Rule::Message(table) => vec![table],
        Rule::Any(tables) => tables.to_vec(),
        Rule::Map(rule) => inner(rule),
        Rule::Read | Rule::Ignored | Rule::Refused => Vec::new(),
    }
}

fn is_read(field: &Field) -> bool {
    !matches!(field.rule, Rule::Ignored | Rule::Refused)
}

/// What stands between `start` and the next `end`.
fn between<'a>(line: &'a str, start: &str, end: char) -> Option<&'a str> {
    let (_, rest) = line.split_once(start)?;
    rest.split(end).next()
}

/// (tag, name) of each field of our messages, by the full name that their comments say, which may
/// go on in a second line; also of those that are only written, or not.
fn ours(also_written: bool) -> BTreeMap<String, BTreeSet<(u32, String)>> {
    let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let mut message = String::new();
    let mut tag = None;
    let mut is_written = false;
    for line in SOURCES
        .iter()
        .flat_map(|source| source.lines().map(str::trim))
    {
        let said = between(line, "/// `", '`').unwrap_or_default();
        if said.starts_with('.') {
            message.push_str(said);
        } else if said.contains(".v3") || said.starts_with("google.") {
            said.clone_into(&mut message);
        } else if line == ONLY_WRITTEN {
            is_written = true;
        } else if line.starts_with("pub struct") {
            tag = None;
            found.entry(message.clone()).or_default();
        } else if let Some(number) = between(line, "tag = \"", '"') {
            tag = number.parse().ok().filter(|_| also_written || !is_written);
            is_written = false;
        } else if let (Some(name), Some(number)) = (between(line, "pub ", ':'), tag) {
            let name = name.trim_start_matches("r#").to_owned();
            found
                .entry(message.clone())
                .or_default()
                .insert((number, name));
            tag = None;
        }
    }
    found
}

fn complain(wrong: &str) {
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn every_field_of_envoy_is_in_a_table_and_no_other() {
    let files = Files::read();
    let mut wrong = String::new();
    let tables = tables();
    assert!(tables.len() > 60, "{} tables", tables.len());
    for table in tables
        .values()
        .filter(|table| !table.name.starts_with(WELL_KNOWN))
    {
        let definition = files.find(table.name);
        let theirs: BTreeSet<_> = definition
            .fields
            .iter()
            .map(|field| (field.tag, field.name.clone(), field.repeated))
            .collect();
        let here = table.fields.iter();
        let here: BTreeSet<_> = here
            .map(|field| (field.tag, field.name.to_owned(), field.repeated))
            .collect();
        for field in theirs.symmetric_difference(&here) {
            let _ = writeln!(wrong, "{}: {field:?} is in one only", table.name);
        }
        check_oneofs(table, definition, &mut wrong);
    }
    complain(&wrong);
}

/// Of each choice, the fields that we read exclude each other.
fn check_oneofs(table: &Message, definition: &Definition, wrong: &mut String) {
    let mut choices: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for field in definition.fields.iter() {
        let read = table
            .fields
            .iter()
            .any(|ours| ours.tag == field.tag && is_read(ours));
        if let (Some(oneof), true) = (&field.oneof, read) {
            choices.entry(oneof).or_default().insert(field.tag);
        }
    }
    let choices: BTreeSet<_> = choices
        .into_values()
        .filter(|tags| tags.len() > 1)
        .collect();
    let ours = table
        .oneofs
        .iter()
        .map(|tags| tags.iter().copied().collect());
    let ours: BTreeSet<BTreeSet<u32>> = ours
        .map(|tags: BTreeSet<u32>| {
            let read = |tag: &u32| table.fields.iter().any(|it| it.tag == *tag && is_read(it));
            tags.into_iter().filter(read).collect()
        })
        .filter(|tags: &BTreeSet<u32>| tags.len() > 1)
        .collect();
    if choices != ours {
        let _ = writeln!(
            wrong,
            "{}: {choices:?} exclude each other, not {ours:?}",
            table.name
        );
    }
}

#[test]
fn what_a_table_says_is_read_is_in_the_message_and_nothing_else() {
    let ours = ours(false);
    let mut wrong = String::new();
    for table in tables().values() {
        let read = table.fields.iter().filter(|field| is_read(field));
        let read: BTreeSet<_> = read
            .map(|field| (field.tag, field.name.to_owned()))
            .collect();
        // The choice of a value is an enum, which has no fields to look for.
        let has = ours.get(table.name).cloned().unwrap_or_default();
        let is_value = table.name == "google.protobuf.Value";
        if has != read && !is_value && table.name != "google.protobuf.Any" {
            let _ = writeln!(
                wrong,
                "{}: {has:?} has not what is read, {read:?}",
                table.name
            );
        }
    }
    complain(&wrong);
}

#[test]
fn tags_of_our_messages_are_envoys() {
    let files = Files::read();
    let mut wrong = String::new();
    let ours = ours(true);
    assert!(ours.len() > 80, "{} messages", ours.len());
    for (name, fields) in ours
        .iter()
        .filter(|(name, _)| !name.starts_with(WELL_KNOWN))
    {
        let theirs = files.find(name).fields.iter();
        let theirs: BTreeSet<_> = theirs.map(|it| (it.tag, it.name.clone())).collect();
        for field in fields.difference(&theirs) {
            let _ = writeln!(wrong, "{name}: {field:?} is not Envoy's");
        }
    }
    complain(&wrong);
}

#[test]
fn tags_fit_into_the_walk_and_are_unique() {
    for table in tables().values() {
        let tags: BTreeSet<_> = table.fields.iter().map(|field| field.tag).collect();
        assert_eq!(tags.len(), table.fields.len(), "{}", table.name);
        assert!(
            tags.iter().all(|tag| (1..128).contains(tag)),
            "{}",
            table.name
        );
    }
}

/// A field with a text, bytes or a message in it.
fn field(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |mut number: usize| {
        while number > 127 {
            bytes.push(u8::try_from(number & 127).unwrap() | 128);
            number >>= 7;
        }
        bytes.push(u8::try_from(number).unwrap());
    };
    put(usize::from(tag) << 3 | 2);
    put(content.len());
    [bytes.as_slice(), content].concat()
}

#[track_caller]
fn check_bytes(kind: Kind, bytes: &[u8], wanted: Result<&[(&str, usize)], &str>) {
    let found = check(kind, bytes, &Place::root(kind.label()));
    let found = found
        .map(Notes::into_ignored)
        .map_err(|error| error.to_string());
    match (found, wanted) {
        (Ok(found), Ok(wanted)) => {
            let found: Vec<_> = found
                .iter()
                .map(|it| (it.path.as_str(), it.count))
                .collect();
            assert_eq!(found, wanted);
        }
        (Err(error), Err(wanted)) => assert!(error.contains(wanted), "{error}"),
        (found, wanted) => panic!("{found:?} instead of {wanted:?}"),
    }
}

#[test]
fn a_field_that_changes_nothing_is_counted() {
    let chain = field(3, &field(5, b""));
    let bytes = [field(28, b"stats"), chain.clone(), chain].concat();
    let wanted: &[_] = &[
        ("listener.filter_chains.metadata", 2),
        ("listener.stat_prefix", 1),
    ];
    check_bytes(Kind::Listener, &bytes, Ok(wanted));
}

#[test]
fn a_field_that_must_be_understood_is_refused_with_its_path() {
    let chains = [field(3, b""), field(3, &field(1, &field(3, b"")))].concat();
    let path = "`listener.filter_chains[1].filter_chain_match.prefix_ranges[0]` is not supported";
    check_bytes(Kind::Listener, &chains, Err(path));
}

#[test]
fn a_field_that_no_table_has_is_refused() {
    check_bytes(
        Kind::Routes,
        &field(99, b""),
        Err("`routes.#99` is not supported"),
    );
    let host = field(2, &field(3, &field(2, &field(120, b""))));
    check_bytes(
        Kind::Routes,
        &host,
        Err("`routes.virtual_hosts[0].routes[0].route.#120`"),
    );
}

#[test]
fn a_wrapped_message_is_walked_and_an_unknown_one_refused() {
    let wrap = |name: &str, value: &[u8]| {
        let url = format!("type.googleapis.com/{name}");
        let any = [field(1, url.as_bytes()), field(2, value)].concat();
        field(3, &field(3, &field(4, &any)))
    };
    let name = "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
    let path = "`listener.filter_chains[0].filters[0].typed_config.tunneling_config` is not";
    check_bytes(Kind::Listener, &wrap(name, &field(12, b"")), Err(path));
    let wanted: &[_] = &[("listener.filter_chains.filters.typed_config.access_log", 1)];
    check_bytes(Kind::Listener, &wrap(name, &field(5, b"")), Ok(wanted));
    let error = "typed_config` holds the unsupported type `type.googleapis.com/a.B`";
    check_bytes(Kind::Listener, &wrap("a.B", b""), Err(error));
}

#[test]
fn of_what_may_be_there_once_a_second_is_refused() {
    let name = field(1, b"a");
    check_bytes(
        Kind::Routes,
        &[name.clone(), name].concat(),
        Err("`routes.name` is given twice"),
    );
    let action = [field(1, b"a"), field(3, b"")].concat();
    let bytes = field(2, &field(3, &field(2, &action)));
    check_bytes(
        Kind::Routes,
        &bytes,
        Err("route.weighted_clusters` is given twice, or beside"),
    );
}

#[test]
fn a_map_has_its_keys_in_paths() {
    let entry = [field(1, b"x"), field(2, b"")].concat();
    let bytes = field(2, &field(3, &field(13, &entry)));
    let path = "routes[0].typed_per_filter_config[0].x` holds the unsupported type ``";
    check_bytes(Kind::Routes, &bytes, Err(path));
}

#[test]
fn what_is_cut_off_or_wrong_in_kind_is_malformed() {
    let whole = field(2, &field(1, b"name"));
    for end in 1..whole.len() {
        check_bytes(
            Kind::Routes,
            &whole[..end],
            Err("is not a well-formed message"),
        );
    }
    // A number where a message is; a group; a length that no memory has.
    for bytes in [
        &[0x10, 1][..],
        &[0x13, 0x14],
        &[0x12, 255, 255, 255, 255, 255, 255, 255, 255],
    ] {
        check_bytes(Kind::Routes, bytes, Err("is not a well-formed message"));
    }
}

#[test]
fn depth_is_bounded() {
    // A list in a value in a list …
    let mut value = Vec::new();
    for _ in 0..40 {
        value = field(6, &field(1, &value));
    }
    let entry = |value: &[u8]| [field(1, b"k"), field(2, value)].concat();
    let fields = field(1, &entry(&value));
    let bytes = field(6, &field(1, &entry(&fields)));
    check_bytes(Kind::Listener, &bytes, Err("holds too many messages"));
}

#[test]
fn the_page_about_fields_is_fresh() {
    let page = include_str!("../../../../docs/xds-fields.md");
    assert!(page == document(), "run `cargo xtask fields`");
}
