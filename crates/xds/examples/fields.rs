//! Prints the page about fields, `docs/xds-fields.md`. Run by `cargo xtask fields`.

#![allow(clippy::print_stdout, reason = "that is what it is for")]

fn main() {
    print!("{}", xds::fields::document());
}
