"""The protobuf messages of an ORC file's tail, described in code.

Unlike a generated file, this does not tie us to one protobuf runtime.

Field numbers and wire types are those of the ORC specification. Enumerations are declared as ``uint32`` and texts as
``bytes``: the wire form is the same, an unknown number is kept, and a text that is not UTF-8 does not make a file
unreadable. Unknown fields survive parsing and serialising.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

#: A message object. Its fields are made at run time, so type checkers cannot know them.
Message: TypeAlias = Any

# name: number type, in the order of the specification; "*" repeated, "[]" repeated and packed; a capital is a message.
_FIELDS = {
    "IntegerStatistics": "minimum 1 sint64, maximum 2 sint64, sum 3 sint64",
    "DoubleStatistics": "minimum 1 double, maximum 2 double, sum 3 double",
    "StringStatistics": "minimum 1 bytes, maximum 2 bytes, sum 3 sint64, lower_bound 4 bytes, upper_bound 5 bytes",
    "BucketStatistics": "count 1 uint64[]",
    "DecimalStatistics": "minimum 1 bytes, maximum 2 bytes, sum 3 bytes",
    "DateStatistics": "minimum 1 sint32, maximum 2 sint32",
    "TimestampStatistics": (
        "minimum 1 sint64, maximum 2 sint64, minimum_utc 3 sint64, maximum_utc 4 sint64, "
        "minimum_nanos 5 int32, maximum_nanos 6 int32"
    ),
    "BinaryStatistics": "sum 1 sint64",
    "CollectionStatistics": "min_children 1 uint64, max_children 2 uint64, total_children 3 uint64",
    "ColumnStatistics": (
        "number_of_values 1 uint64, int_statistics 2 IntegerStatistics, double_statistics 3 DoubleStatistics, "
        "string_statistics 4 StringStatistics, bucket_statistics 5 BucketStatistics, "
        "decimal_statistics 6 DecimalStatistics, date_statistics 7 DateStatistics, "
        "binary_statistics 8 BinaryStatistics, timestamp_statistics 9 TimestampStatistics, has_null 10 bool, "
        "bytes_on_disk 11 uint64, collection_statistics 12 CollectionStatistics"
    ),
    "RowIndexEntry": "positions 1 uint64[], statistics 2 ColumnStatistics",
    "RowIndex": "entry 1 RowIndexEntry*",
    "BloomFilter": "num_hash_functions 1 uint32, bitset 2 fixed64[], utf8bitset 3 bytes",
    "BloomFilterIndex": "bloom_filter 1 BloomFilter*",
    "Stream": "kind 1 uint32, column 2 uint32, length 3 uint64",
    "ColumnEncoding": "kind 1 uint32, dictionary_size 2 uint32, bloom_encoding 3 uint32",
    "StripeFooter": "streams 1 Stream*, columns 2 ColumnEncoding*, writer_timezone 3 bytes, encryption 4 bytes*",
    "StringPair": "key 1 bytes, value 2 bytes",
    "Type": (
        "kind 1 uint32, subtypes 2 uint32[], field_names 3 bytes*, maximum_length 4 uint32, precision 5 uint32, "
        "scale 6 uint32, attributes 7 StringPair*"
    ),
    "StripeInformation": (
        "offset 1 uint64, index_length 2 uint64, data_length 3 uint64, footer_length 4 uint64, "
        "number_of_rows 5 uint64, encrypt_stripe_id 6 uint64, encrypted_local_keys 7 bytes*"
    ),
    "UserMetadataItem": "name 1 bytes, value 2 bytes",
    "StripeStatistics": "col_stats 1 ColumnStatistics*",
    "Metadata": "stripe_stats 1 StripeStatistics*",
    "Footer": (
        "header_length 1 uint64, content_length 2 uint64, stripes 3 StripeInformation*, types 4 bytes*, "
        "metadata 5 UserMetadataItem*, number_of_rows 6 uint64, statistics 7 ColumnStatistics*, "
        "row_index_stride 8 uint32, writer 9 uint32, encryption 10 bytes, calendar 11 uint32, software_version 12 bytes"
    ),
    "PostScript": (
        "footer_length 1 uint64, compression 2 uint32, compression_block_size 3 uint64, version 4 uint32[], "
        "metadata_length 5 uint64, writer_version 6 uint32, stripe_statistics_length 7 uint64, magic 8000 bytes"
    ),
}
_PACKAGE = "compactor.orc"
_FIELD = descriptor_pb2.FieldDescriptorProto


def _add_field(message: descriptor_pb2.DescriptorProto, text: str) -> None:
    name, number, kind = text.split()
    packed, repeated = kind.endswith("[]"), kind.endswith(("[]", "*"))
    kind = kind.rstrip("[]*")
    field = message.field.add(
        name=name, number=int(number), label=_FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
    )
    if kind[0].isupper():
        field.type = _FIELD.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
    else:
        field.type = _FIELD.Type.Value(f"TYPE_{kind.upper()}")
    if packed:
        field.options.packed = True


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="compactor/orc.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field in fields.split(", "):
            _add_field(message, field)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _FIELDS}


_CLASSES = _messages()
BloomFilterIndex: Any = _CLASSES["BloomFilterIndex"]
ColumnStatistics: Any = _CLASSES["ColumnStatistics"]
Footer: Any = _CLASSES["Footer"]
Metadata: Any = _CLASSES["Metadata"]
PostScript: Any = _CLASSES["PostScript"]
RowIndex: Any = _CLASSES["RowIndex"]
Stream: Any = _CLASSES["Stream"]
StripeFooter: Any = _CLASSES["StripeFooter"]
StripeInformation: Any = _CLASSES["StripeInformation"]
StripeStatistics: Any = _CLASSES["StripeStatistics"]
Type: Any = _CLASSES["Type"]
UserMetadataItem: Any = _CLASSES["UserMetadataItem"]
