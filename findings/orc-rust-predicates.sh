#!/usr/bin/env bash
# Predicates on decimals lose row groups in orc-rust, and so do predicates on a column whose first value is NaN.
#
# orc-rust compares the bounds of decimals, which ORC stores as texts, with the literal as texts: of the decimals 5 to 15 the
# bounds are "5" and "15", and "10" lies before "5". pyorc writes NaN as both bounds of a row group that begins with NaN; no
# number lies between them. Such a predicate only chooses row groups, so each query must keep the eleven rows.
#
# Expected: every query keeps 11 rows. Needs: Python 3.9 to 3.13, Cargo.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

python3 -m venv venv
venv/bin/pip -q install pyorc==0.12.0 2>/dev/null
venv/bin/python - <<'PYTHON'
from decimal import Decimal

import pyorc

with open("file.orc", "wb") as file, pyorc.Writer(file, "struct<whole:bigint,price:decimal(10,2),share:double>") as writer:
    for number in range(5, 16):
        writer.write((number, Decimal(number), float("nan") if number == 5 else float(number)))
PYTHON

mkdir src
cat >Cargo.toml <<'TOML'
[package]
name = "finding"
version = "0.1.0"
edition = "2021"

[dependencies]
orc-rust = { version = "=0.9.0", default-features = false }
TOML
cat >src/main.rs <<'RUST'
use orc_rust::predicate::{ComparisonOp, Predicate, PredicateValue};
use orc_rust::ArrowReaderBuilder;
use std::fs::File;

fn kept(column: &str, value: PredicateValue) -> usize {
    let predicate = Predicate::comparison(column, ComparisonOp::Equal, value);
    let builder = ArrowReaderBuilder::try_new(File::open("file.orc").unwrap()).unwrap();
    builder.with_predicate(predicate).build().map(|batch| batch.unwrap().num_rows()).sum()
}

fn main() {
    let whole = kept("whole", PredicateValue::Int64(Some(10)));
    let price = kept("price", PredicateValue::Utf8(Some("10".to_string())));
    let share = kept("share", PredicateValue::Float64(Some(10.0)));
    println!("whole = 10: {whole}; price = 10: {price}; share = 10: {share}");
}
RUST
seen=$(CARGO_TARGET_DIR=$folder/target cargo run -q 2>/dev/null)
echo "expected:       whole = 10: 11; price = 10: 11; share = 10: 11"
echo "orc-rust 0.9.0: $seen"
[[ $seen == "whole = 10: 11; price = 10: 0; share = 10: 0" ]]
