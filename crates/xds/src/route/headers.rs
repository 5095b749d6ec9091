//! Filters of a route as headers to add and to remove. Envoy removes before it adds, and has no
//! order otherwise; so of several changes to one header the last stands for all.

use std::collections::BTreeMap;

use model::Filter;

use crate::check;
use crate::error::Error;
use crate::place::Place;
use crate::proto::core::{HeaderValue, HeaderValueOption};
use crate::proto::route::Route;

const OVERWRITE_IF_EXISTS_OR_ADD: i32 = 2;

/// The fields of a route that change headers.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) request_set: Vec<HeaderValueOption>,
    pub(super) request_removed: Vec<String>,
    pub(super) response_set: Vec<HeaderValueOption>,
    pub(super) response_removed: Vec<String>,
}

/// Checks names and values; `at` is the route.
pub(super) fn check(filters: &[Filter], at: &Place<'_>) -> Result<(), Error> {
    for (index, filter) in filters.iter().enumerate() {
        check_one(filter, &at.item("filters", index))?;
    }
    Ok(())
}

fn check_one(filter: &Filter, at: &Place<'_>) -> Result<(), Error> {
    match filter {
        Filter::SetRequestHeader { name, value } | Filter::SetResponseHeader { name, value } => {
            check::header_name(name, at)?;
            check::header_value(value, at)
        }
        Filter::RemoveRequestHeader { name } | Filter::RemoveResponseHeader { name } => {
            check::header_name(name, at)
        }
        Filter::Hold { .. } => Err(Error::invalid(
            at,
            "`hold` is for tests, and does not travel; remove it",
        )),
    }
}

/// In one order, the last change of a header standing for all.
pub(super) fn canonical(filters: &[Filter]) -> Vec<Filter> {
    let mut last = BTreeMap::new();
    for filter in filters {
        let (is_response, name) = match filter {
            Filter::SetRequestHeader { name, .. } | Filter::RemoveRequestHeader { name } => {
                (false, name)
            }
            Filter::SetResponseHeader { name, .. } | Filter::RemoveResponseHeader { name } => {
                (true, name)
            }
            Filter::Hold { .. } => continue,
        };
        last.insert((is_response, name.to_ascii_lowercase()), filter);
    }
    last.into_values().cloned().collect()
}

/// Of filters that were checked.
pub(super) fn encode(filters: &[Filter]) -> Changes {
    let mut changes = Changes::default();
    for filter in filters {
        match filter {
            Filter::SetRequestHeader { name, value } => {
                changes.request_set.push(set(name, value));
            }
            Filter::RemoveRequestHeader { name } => changes.request_removed.push(name.clone()),
            Filter::SetResponseHeader { name, value } => {
                changes.response_set.push(set(name, value));
            }
            Filter::RemoveResponseHeader { name } => changes.response_removed.push(name.clone()),
            Filter::Hold { .. } => {}
        }
    }
    changes
}

/// A percent sign would begin a variable.
fn set(name: &str, value: &str) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue {
            key: name.to_owned(),
            value: value.replace('%', "%%"),
        }),
        append_action: OVERWRITE_IF_EXISTS_OR_ADD,
        keep_empty_value: value.is_empty(),
    }
}

pub(super) fn decode(route: &Route, at: &Place<'_>) -> Result<Vec<Filter>, Error> {
    let mut filters = Vec::new();
    for name in &route.request_headers_to_remove {
        let name = name.clone();
        filters.push(Filter::RemoveRequestHeader { name });
    }
    for (index, option) in route.request_headers_to_add.iter().enumerate() {
        let (name, value) = decode_set(option, &at.item("request_headers_to_add", index))?;
        filters.push(Filter::SetRequestHeader { name, value });
    }
    for name in &route.response_headers_to_remove {
        let name = name.clone();
        filters.push(Filter::RemoveResponseHeader { name });
    }
    for (index, option) in route.response_headers_to_add.iter().enumerate() {
        let (name, value) = decode_set(option, &at.item("response_headers_to_add", index))?;
        filters.push(Filter::SetResponseHeader { name, value });
    }
    check(&filters, at)?;
    Ok(canonical(&filters))
}

fn decode_set(option: &HeaderValueOption, at: &Place<'_>) -> Result<(String, String), Error> {
    if option.append_action != OVERWRITE_IF_EXISTS_OR_ADD {
        let at = at.field("append_action");
        let reason = "headers are replaced; send OVERWRITE_IF_EXISTS_OR_ADD";
        return Err(Error::invalid(&at, reason));
    }
    let header = option.header.clone().unwrap_or_default();
    let at = at.field("header");
    if header.value.is_empty() && !option.keep_empty_value {
        return Err(Error::invalid(
            &at,
            "an empty value would be dropped; send keep_empty_value",
        ));
    }
    let parts: Vec<_> = header.value.split("%%").collect();
    if parts.iter().any(|part| part.contains('%')) {
        let reason = "variables are not supported; write %% for a percent sign";
        return Err(Error::invalid(&at.field("value"), reason));
    }
    Ok((header.key, parts.join("%")))
}
