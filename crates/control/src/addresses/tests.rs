//! Addresses stay, are told apart, and are found again.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::kinds::Resource;
use yaml::Node;

fn service(name: &str, cluster_ip: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{clusterIP: \
         \"{cluster_ip}\", ports: [{{port: 80}}]}}\n"
    )
}

/// A mesh whose Services have these addresses to be given.
fn ranges(cidrs: &str) -> String {
    format!(
        "---\napiVersion: leno.dev/v1alpha1\nkind: MeshConfig\nmetadata: {{name: mesh}}\nspec: \
         {{serviceCIDRs: {cidrs}}}\n"
    )
}

/// Settles `book` with these resources; gives the Services whose addresses changed.
fn settle(book: &mut Book, text: &str) -> (Settled, Vec<String>) {
    let file = Arc::from(Path::new("mesh.yaml"));
    let nodes = Node::read_all(text).unwrap();
    let read = |node| Arc::new(Resource::read(node, &file).unwrap());
    let mut index = Index::default();
    index.replace(&nodes.iter().map(read).collect::<Vec<_>>());
    let mut changes = Changes {
        everything: true,
        ..Changes::default()
    };
    let settled = book.settle(&index, &mut changes);
    (
        settled,
        changes.services.into_iter().map(|key| key.name).collect(),
    )
}

fn of(book: &Book, name: &str) -> Vec<String> {
    let addresses = book.of(&ServiceKey::new("default", name)).iter();
    addresses.map(ToString::to_string).collect()
}

#[test]
fn a_service_has_an_address_of_each_family_which_its_name_leads_to() {
    let mut book = Book::default();
    let (settled, changed) = settle(&mut book, &service("hello", ""));
    assert!(settled.is_changed && settled.without.is_empty());
    assert_eq!(changed, ["hello"]);
    // Any other would be a change of everybody's addresses.
    assert_eq!(of(&book, "hello"), ["10.78.202.155", "fd78::ca9b"]);
}

#[test]
fn addresses_stay_whoever_comes_and_goes() {
    let mut book = Book::default();
    let names: Vec<_> = (0..300).map(|number| format!("s{number}")).collect();
    let all: String = names.iter().map(|name| service(name, "")).collect();
    settle(&mut book, &all);
    let before: Vec<_> = names.iter().map(|name| of(&book, name)).collect();
    let distinct: BTreeSet<_> = before.iter().flatten().collect();
    assert_eq!(distinct.len(), 600);
    let (settled, changed) = settle(&mut book, &service("s7", ""));
    assert_eq!((settled.is_changed, changed.len()), (false, 299));
    settle(&mut book, &all);
    assert_eq!(
        before,
        names.iter().map(|name| of(&book, name)).collect::<Vec<_>>()
    );
}

#[test]
fn who_asks_for_an_address_gets_it() {
    let mut book = Book::default();
    settle(&mut book, &service("hello", ""));
    let address = of(&book, "hello").remove(0);
    let both = service("hello", "") + &service("picky", &address) + &service("none", "None");
    let (settled, changed) = settle(&mut book, &both);
    assert!(settled.is_changed);
    assert_eq!(changed, ["hello", "picky"]);
    assert_eq!(of(&book, "picky")[0], address);
    assert_ne!(of(&book, "hello")[0], address);
    assert_eq!(of(&book, "hello")[1], "fd78::ca9b");
    assert_eq!(of(&book, "none"), [""; 0]);
}

#[test]
fn a_range_that_is_full_says_so_and_forgets_who_is_gone() {
    let mut book = Book::default();
    let range = ranges("[10.78.0.0/30]");
    let (settled, _) = settle(
        &mut book,
        &(range.clone() + &service("a", "") + &service("b", "")),
    );
    assert!(settled.without.is_empty());
    let three = range + &service("b", "") + &service("c", "") + &service("d", "");
    let (settled, _) = settle(&mut book, &three);
    let without: Vec<_> = settled.without.iter().map(ToString::to_string).collect();
    assert_eq!(without, ["default/d"]);
    let distinct: BTreeSet<_> = ["b", "c"]
        .into_iter()
        .flat_map(|name| of(&book, name))
        .collect();
    assert_eq!(
        distinct.into_iter().collect::<Vec<_>>(),
        ["10.78.0.1", "10.78.0.2"]
    );
}

#[test]
fn other_ranges_mean_other_addresses() {
    let mut book = Book::default();
    settle(&mut book, &service("hello", ""));
    settle(
        &mut book,
        &(ranges("[10.99.0.0/16]") + &service("hello", "")),
    );
    assert_eq!(of(&book, "hello"), ["10.99.202.155"]);
}

#[test]
fn the_book_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("addresses.json");
    let mut book = Book::load(&path).unwrap();
    settle(&mut book, &service("hello", ""));
    book.save(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut again = Book::load(&path).unwrap();
    let (settled, _) = settle(&mut again, &service("hello", ""));
    assert!(!settled.is_changed);
    assert_eq!(again, book);
    std::fs::write(&path, "{\"services\": []}").unwrap();
    let error = Book::load(&path).unwrap_err().to_string();
    assert!(error.contains("is not a book of addresses"), "{error}");
}

#[test]
fn what_does_not_concern_addresses_costs_nothing() {
    let mut book = Book::default();
    settle(&mut book, &service("hello", ""));
    let mut changes = Changes::default();
    changes.services.insert(ServiceKey::new("default", "gone"));
    let before = book.clone();
    let mut index = Index::default();
    let settled = book.settle(&index, &mut changes);
    assert_eq!((settled, &book), (Settled::default(), &before));
    index.take_changes();
    changes.services.insert(ServiceKey::new("default", "hello"));
    book.settle(&index, &mut changes);
    assert_eq!(of(&book, "hello"), [""; 0]);
}
