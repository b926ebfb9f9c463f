"""Renders texts for Spark from the parsed words.

Every function and sign must be on a list of allowed ones.

Spark reads comments, raw texts, ``$$`` and blanks differently than the parser, so they could hide from the parser what Spark
does. The text for Spark has none of them: it is the parser's words, one after the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from compactor.base.errors import NotSupported
from compactor.statements import parsed_actions
from compactor.statements.parsed_actions import Query, Span, TablePlace
from compactor.statements.tokens import Token, split_statements

_REFUSED_SIGNS = frozenset("${}@")
_CLOSE = ".,()[]"  #: next to these, no blank is needed between words
_QUERIES = frozenset(("select", "with", "from", "values", "table"))
_TRAVEL = ("system_version", "system_time", "version", "timestamp")
_START = Token(kind="sign", value=";")
_FUNCTIONS = """
abs acos acosh add_months aes_decrypt aes_encrypt aggregate and any any_value approx_count_distinct approx_percentile
approx_top_k approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate array array_agg array_append
array_compact array_contains array_distinct array_except array_insert array_intersect array_join array_max array_min
array_position array_prepend array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip
ascii asin asinh assert_true atan atan2 atanh avg base64 between bigint bin binary bit_and bit_count bit_get
bit_length bit_or bit_xor bitmap_and_agg bitmap_bit_position bitmap_bucket_number bitmap_construct_agg bitmap_count
bitmap_or_agg bool_and bool_or boolean bround btrim cardinality case cast cbrt ceil ceiling char char_length
character_length chr coalesce collate collation collations collect_list collect_set collect_union concat concat_ws
contains conv convert_timezone corr cos cosh cot count count_if count_min_sketch counter_diff covar_pop covar_samp
crc32 csc cume_dist curdate current_catalog current_database current_date current_path current_schema current_time
current_timestamp current_timezone current_user date date_add date_diff date_format date_from_unix_date date_part
date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear decimal decode degrees
dense_rank div double e element_at elt encode endswith equal_null every exists exp explode explode_outer expm1 extract
factorial filter find_in_set first first_value flatten float floor forall format_number format_string
from_base32 from_csv from_json from_unixtime from_utc_timestamp get get_json_object getbit greatest grouping
grouping_id hash hex histogram_numeric hll_sketch_agg hll_sketch_estimate hll_union hll_union_agg hmac hour hypot if
ifnull ilike in initcap inline inline_outer input_file_block_length input_file_block_start input_file_name instr int
is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull isnull jaro_winkler_similarity json_array_length
json_object_keys json_tuple kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint
kll_sketch_agg_double kll_sketch_agg_float kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double
kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float kurtosis lag
last last_day last_value lcase lead least left len length levenshtein like listagg ln localtime localtimestamp locate
log log10 log1p log2 lower lpad ltrim luhn_check make_date make_dt_interval make_interval make_time make_timestamp
make_timestamp_ltz make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries
map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with mask max max_by md5 mean measure median
min min_by minute mod mode monotonically_increasing_id month monthname months_between named_struct nanvl negative
next_day not now nth_value ntile nullif nullifzero nvl nvl2 octet_length or overlay parse_json parse_url percent_rank
percentile percentile_approx percentile_cont percentile_disc pi pmod posexplode posexplode_outer position positive pow
power printf quarter quote radians raise_error rand randn random randstr range rank reduce regexp regexp_count
regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr regr_avgx regr_avgy regr_count
regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse right rint rlike round row_number
rpad rtrim schema_of_csv schema_of_json schema_of_variant schema_of_variant_agg sec second sentences
sequence session_user session_window sha sha1 sha2 shiftleft shiftright shiftrightunsigned shuffle sign signum sin
sinh size skewness slice smallint some sort_array soundex space spark_partition_id split split_part sql_keywords sqrt
st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid stack startswith std stddev stddev_pop stddev_samp
str_to_map string string_agg struct substr substring substring_index sum tan tanh theta_difference theta_intersection
theta_intersection_agg theta_sketch_agg theta_sketch_estimate theta_union theta_union_agg time time_bucket time_diff
time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc timestamp
timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds tinyint to_avro to_base32 to_binary to_char to_csv
to_date to_json to_number to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp
to_varchar to_variant_object to_xml transform transform_keys transform_values translate trim trunc try_add
try_aes_decrypt try_avg try_divide try_element_at try_make_interval try_make_timestamp try_make_timestamp_ltz
try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url try_subtract try_sum try_to_binary
try_to_date try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8 try_variant_array_append
try_variant_get try_variant_insert try_variant_set tuple_difference_double tuple_difference_integer
tuple_difference_theta_double tuple_difference_theta_integer tuple_intersection_agg_double
tuple_intersection_agg_integer tuple_intersection_double tuple_intersection_integer tuple_intersection_theta_double
tuple_intersection_theta_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_sketch_estimate_double
tuple_sketch_estimate_integer tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double
tuple_sketch_theta_integer tuple_union_agg_double tuple_union_agg_integer tuple_union_double tuple_union_integer
tuple_union_theta_double tuple_union_theta_integer typeof ucase unbase64 unhex uniform unix_date unix_micros
unix_millis unix_nanos unix_seconds unix_timestamp upper url_decode url_encode user uuid validate_utf8 var_pop
var_samp variance variant_array_append variant_delete variant_explode variant_explode_outer variant_get variant_insert
variant_set variant_strip_nulls vector_avg vector_cosine_similarity vector_inner_product vector_l2_distance
vector_norm vector_normalize vector_sum version weekday weekofyear when width_bucket window window_time xxhash64 year
zeroifnull zip_with
"""
_NO_CALLS = """
all and any as between by case cube distinct else end escape except exists filter for from group having ilike in
intersect interval is join lateral like limit minus not of offset on or over pivot recursive rlike rollup select sets
some tablesample then union unpivot using values when where with char character dec decimal numeric time timestamp
timestamp_ltz timestamp_ntz varchar cast extract if left overlay position right substring timestampadd timestampdiff
trim try_cast
"""
_CODE = "it calls any method of Java"
_FILE = "it reads a file by its path"
_XML = "it parses XML, which may name files"
REFUSED: Mapping[str, str] = {
    "java_method": _CODE,
    "reflect": _CODE,
    "try_reflect": _CODE,
    "from_avro": _FILE,  # by its option avroSchemaUrl
    "schema_of_avro": _FILE,
    "from_protobuf": _FILE,
    "to_protobuf": _FILE,
    "read_files": _FILE,
    "from_xml": _XML,
    "schema_of_xml": _XML,
    "xpath": _XML,
    "xpath_boolean": _XML,
    "xpath_double": _XML,
    "xpath_float": _XML,
    "xpath_int": _XML,
    "xpath_long": _XML,
    "xpath_number": _XML,
    "xpath_short": _XML,
    "xpath_string": _XML,
    "identifier": "it makes a name of a text, which may be a path",
    "table": "it reads a table or a file of Spark's own catalog",
    "stream": "it reads a table or a file of Spark's own catalog",
    "python_worker_logs": "it shows the logs of other work",
}  #: each with the reason

FUNCTIONS = frozenset(_FUNCTIONS.split())

#: Words that may precede a parenthesis without calling a function: keywords, and types with parameters.
NO_CALLS = frozenset(_NO_CALLS.split())


class SparkText:
    """A whole text; renders its queries and expressions for Spark."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [token for statement in split_statements(text) for token in statement]
        self._starts = [token.start for token in self._tokens]

    def functions_to_look_up(self, action: parsed_actions.Action) -> tuple[Token, ...]:
        """Checks everything of an action that Spark gets; returns calls of functions that are not Spark's own.

        Raises:
            NotSupported: a part reaches code, files or another catalog, or Spark may read it differently.
        """
        queries, expressions = _parts(action)
        calls: list[Token] = []
        for query in queries:
            for place in query.places:
                if "/" in place.table.table:
                    raise NotSupported(f"statement: {place.table}: files are not read by path; nothing was done")
            tokens = [token for piece in query.pieces for token in self._between(piece)]
            is_condition = isinstance(action, parsed_actions.Update | parsed_actions.Delete)
            _must_not_travel(tokens, [] if is_condition else [(place.start, place.end) for place in query.places])
            calls += self._check_tokens(tokens, is_query=True)
        for expression in expressions:
            calls += self._check_tokens(self._between(expression), is_query=False)
        return tuple(calls)

    def whole_queries(self, action: parsed_actions.Action, name: str) -> list[str]:
        """Returns the queries of an action as Spark parses them, with every table called ``name``."""
        texts = [self.query(query, lambda _: name).format() for query in _parts(action)[0]]
        match action:
            case parsed_actions.MultiInsert(source=Query(), alias=alias):
                return [texts[0], *(f"FROM {name} AS {_quote(alias)} {text}" for text in texts[1:])]
            case parsed_actions.Update(nested=Query()) | parsed_actions.Delete(nested=Query()):
                return [f"SELECT 1 FROM {name} WHERE ({text})" for text in texts]
        return texts

    def expression(self, span: Span) -> str:
        """Renders an expression for Spark."""
        return _join_words(list(self._render_tokens(self._between(span))))

    def query(self, query: Query, names: Callable[[TablePlace], str]) -> str:
        """Renders a query with other names for its tables.

        Each table without an alias gets its own name as alias. Its version is left out.

        Args:
            names: returns the new name as a field of ``str.format``; braces in the result are doubled accordingly.
        """
        written: list[tuple[Token, str]] = []
        places = {place.start: place for place in query.places}
        tokens = [token for piece in query.pieces for token in self._between(piece)]
        starts = _find_defined_names(tokens)
        defined = {token.value for token in tokens if token.start in starts}
        for piece in query.pieces:
            skipped_to = 0
            for token, text in self._render_tokens(self._between(piece)):
                place = places.get(token.start)
                if place is not None:
                    alias = "" if place.aliased else f" AS {_quote(place.table.table)}"
                    written.append((_START, f"{names(place)}{alias}"))
                    skipped_to = place.end
                elif token.start >= skipped_to:
                    if token.kind in ("word", "quoted") and token.value in defined and text.lower() != text:
                        text = _quote(token.value)  # Spark may be set to distinguish names by case
                    written.append((token, text.replace("{", "{{").replace("}", "}}")))
        return _join_words(written)

    def _between(self, span: Span) -> list[Token]:
        return self._tokens[bisect_left(self._starts, span[0]) : bisect_left(self._starts, span[1])]

    def _render_tokens(self, tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
        for token in tokens:
            raw = self._text[token.start : token.end]
            # Spark takes some of these characters for blanks; in quotes they are part of the name
            yield token, _quote(raw) if token.kind == "word" and not raw.isascii() else raw

    def _check_tokens(self, tokens: Sequence[Token], *, is_query: bool) -> list[Token]:
        """Checks tokens for Spark; returns the calls of functions that are on no list."""
        calls = []
        defined = _find_defined_names(tokens)
        padded = [_START, _START, *tokens, _START]
        for before, token, after in zip(padded[1:], padded[2:], padded[3:], strict=False):
            self._check_token(before, token, after, is_query)
            if not _is_sign(after, "("):
                continue
            if token.kind == "text" or _is_sign(token, ")", "]"):
                raise _refuse(token, f"{token} before a parenthesis calls what cannot be known")
            if token.kind in ("word", "quoted"):
                calls += _check_call(before, token, is_defined=token.start in defined)
        return calls

    def _check_token(self, before: Token, token: Token, after: Token, is_query: bool) -> None:
        if "${" in self._text[token.start : token.end] or _is_sign(token, *_REFUSED_SIGNS):
            raise _refuse(token, "$, @, { and } are Spark's to replace; only a text may have them, and never ${")
        if _is_sign(token, "|") and _is_sign(after, ">"):
            raise _refuse(token, "|> is not supported; write the query with SELECT")
        if token.kind == "text" and _is_word(before, "r") and before.end == token.start:
            raise _refuse(before, "raw texts are not supported; write it without r, with \\\\ for each backslash")
        if _is_word(token, "using") and not _is_sign(after, "("):
            raise _refuse(token, "USING is only read before the columns of a join, and runs no script")
        if _is_word(token, "table") and after.kind in ("word", "quoted"):
            raise _refuse(token, f"TABLE {after} is not on the list of queries; write SELECT * FROM {after}")
        if not is_query and _is_sign(before, "(") and _is_word(token, *_QUERIES):
            raise _refuse(token, "a query is within an expression that may have none")


def _must_not_travel(tokens: Sequence[Token], tables: Collection[Span]) -> None:
    """Refuses ``VERSION AS OF 17`` and its other spellings, except as part of ``tables``.

    Spark reads no version of a DataFrame.
    """
    for word, *others, value in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        is_travel = _is_word(word, *_TRAVEL) and _is_word(others[0], "as") and _is_word(others[1], "of")
        if any(start <= word.start < end for start, end in tables):
            continue
        if is_travel and (value.kind in ("number", "text") or _is_sign(value, "(", "-")):
            raise _refuse(
                word,
                f"{str(word).upper()} AS OF; a version is only read after a table's name, FROM t FOR SYSTEM_VERSION AS OF "
                "17, and not in UPDATE and DELETE",
            )


def _check_call(before: Token, token: Token, *, is_defined: bool) -> list[Token]:
    """Checks the name before a parenthesis; returns it if it calls a function that is on no list."""
    name = token.value
    if name in REFUSED:
        raise _refuse(token, f"{name} is refused: {REFUSED[name]}")
    if _is_sign(before, "."):
        raise _refuse(token, f"{name} has a name before it; functions are called by their own name alone")
    if is_defined or name in FUNCTIONS or (token.kind == "word" and name in NO_CALLS):
        return []
    return [] if _is_sign(before, ")") or _is_word(before, "as") else [token]


def _find_defined_names(tokens: Sequence[Token]) -> frozenset[int]:
    """Returns where WITH defines names; columns in parentheses may follow these."""
    places: set[int] = set()
    for number, token in enumerate(tokens):
        if _is_word(token, "with"):
            places.update(_find_names_of_with(tokens[number + 1 :]))
    return frozenset(places)


def _find_names_of_with(tokens: Sequence[Token]) -> Iterator[int]:
    """Yields where the names of one WITH are: ``name (columns) AS (query), ...``."""
    at = 1 if tokens and _is_word(tokens[0], "recursive") else 0
    while at < len(tokens) and tokens[at].kind in ("word", "quoted"):
        yield tokens[at].start
        while at < len(tokens) and not _is_word(tokens[at], "as"):
            at = _behind_group(tokens, at)
        at = _behind_group(tokens, at + 1)
        if at >= len(tokens) or not _is_sign(tokens[at], ","):
            return
        at += 1


def _behind_group(tokens: Sequence[Token], at: int) -> int:
    """Returns the place behind a token, or behind the parentheses that it opens."""
    depth = 0
    while at < len(tokens):
        if tokens[at].kind == "sign":
            depth += {"(": 1, ")": -1}.get(tokens[at].value, 0)
        at += 1
        if depth <= 0:
            break
    return at


def _parts(action: parsed_actions.Action) -> tuple[list[Query], list[Span]]:
    """Returns the queries and expressions of an action that Spark evaluates."""
    match action:
        case parsed_actions.NeedsSpark(query=query) | parsed_actions.CreateTableAs(query=query):
            return [query], []
        case parsed_actions.Select(query=query):
            return [] if query is None else [query], []
        case parsed_actions.MultiInsert(inserts=inserts, source=source):
            return [*([] if source is None else [source]), *(insert.query for insert in inserts)], []
        case parsed_actions.Update(values=values, condition=condition, nested=nested):
            return _condition(condition, nested, values)
        case parsed_actions.Delete(condition=condition, nested=nested):
            return _condition(condition, nested, ())
        case parsed_actions.MergeStatement(source=source, on=on, clauses=clauses):
            expressions = [on, *(clause.condition for clause in clauses if clause.condition is not None)]
            expressions += [value for clause in clauses for value in clause.values]
            return [source] if isinstance(source, Query) else [], expressions
    return [], []


def _condition(condition: Span | None, nested: Query | None, values: Sequence[Span]) -> tuple[list[Query], list[Span]]:
    if nested is not None:
        return [nested], list(values)
    return [], [*values, *([] if condition is None else [condition])]


def _join_words(written: Sequence[tuple[Token, str]]) -> str:
    """Joins words with blanks, except within operators and numbers, or at a parenthesis that had none."""
    joined: list[str] = []
    before = _START
    for token, word in written:
        is_close = before.kind == token.kind == "sign" or _is_sign(before, *_CLOSE) or _is_sign(token, *_CLOSE)
        joined += [word] if not joined or (is_close and before.end == token.start) else [" ", word]
        before = token
    return "".join(joined)


def _is_sign(token: Token, *signs: str) -> bool:
    return token.kind == "sign" and token.value in signs


def _is_word(token: Token, *words: str) -> bool:
    return token.kind == "word" and token.value in words


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _refuse(token: Token, why: str) -> NotSupported:
    return NotSupported(f"statement: {token.place}: {why}; nothing was done (docs/sql.md)")
