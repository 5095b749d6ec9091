//! Fields of what `google.protobuf` lends.

use super::Message;
use super::Rule::{Map, Message as Of, Read};
use super::{many, one};

pub(super) static ANY: Message = Message {
    name: "google.protobuf.Any",
    fields: &[one(1, "type_url", Read), one(2, "value", Read)],
    oneofs: &[],
};

pub(super) static DURATION: Message = Message {
    name: "google.protobuf.Duration",
    fields: &[one(1, "seconds", Read), one(2, "nanos", Read)],
    oneofs: &[],
};

pub(super) static BOOL_VALUE: Message = Message {
    name: "google.protobuf.BoolValue",
    fields: &[one(1, "value", Read)],
    oneofs: &[],
};

pub(super) static UINT32_VALUE: Message = Message {
    name: "google.protobuf.UInt32Value",
    fields: &[one(1, "value", Read)],
    oneofs: &[],
};

pub(super) static STRUCT: Message = Message {
    name: "google.protobuf.Struct",
    fields: &[many(1, "fields", Map(&Of(&VALUE)))],
    oneofs: &[],
};

pub(super) static VALUE: Message = Message {
    name: "google.protobuf.Value",
    fields: &[
        one(1, "null_value", Read),
        one(2, "number_value", Read),
        one(3, "string_value", Read),
        one(4, "bool_value", Read),
        one(5, "struct_value", Of(&STRUCT)),
        one(6, "list_value", Of(&LIST_VALUE)),
    ],
    oneofs: &[&[1, 2, 3, 4, 5, 6]],
};

pub(super) static LIST_VALUE: Message = Message {
    name: "google.protobuf.ListValue",
    fields: &[many(1, "values", Of(&VALUE))],
    oneofs: &[],
};
