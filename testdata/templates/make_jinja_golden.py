#!/usr/bin/env python3
"""Goldens for coordinator/template/jinja: snippets rendered by jinja2 in the environment that transformers uses for chat templates.

usage: make_jinja_golden.py > jinja_golden.json        (pip install jinja2==3.1.6)
"""
import json, sys
import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_block"), [], [], body).set_lineno(line)

    def _block(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    e = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    e.filters["tojson"] = tojson
    e.globals["raise_exception"] = raise_exception
    return e


VARS = {
    "s": "Hello World", "u": "Zürich 😀 ﬁ", "empty": "", "sp": "  a b\tc \n", "n": 7, "neg": -7, "f": 2.5, "big": 1e16, "tiny": 1e-5, "t": True, "no": False, "nil": None,
    "l": [3, 1, 2], "ls": ["b", "A", "c"], "le": [], "d": {"z": 1, "a": "x", "items": [1], "n": None, "f": 1.0, "t": True}, "de": {},
    "nested": {"a": {"b": [{"c": "deep"}, {"c": "er"}]}}, "q": "it's \"quoted\" \\ and\nnew\tline <b>&",
    "msgs": [{"role": "system", "content": "S"}, {"role": "user", "content": "hi"}, {"role": "assistant", "content": None}, {"role": "user", "content": "bye", "x": 1}],
    "mixed": [1, "a", None, 2.0, True, [1], {"k": "v"}],
}

SNIPPETS = r"""
{{ s }}|{{ n }}|{{ f }}|{{ t }}|{{ no }}|{{ nil }}|{{ l }}|{{ d }}|{{ missing }}|{{ big }}|{{ tiny }}
{{ mixed }}{{ q }}{{ [q] }}{{ u }}{{ [u] }}{{ ("a",) }}{{ () }}{{ (1, 2) }}{{ {} }}{{ [] }}
{{ n + 1 }} {{ n - 10 }} {{ n * 2 }} {{ n / 2 }} {{ n // 2 }} {{ neg // 2 }} {{ n % 3 }} {{ neg % 3 }} {{ n ** 2 }} {{ 2 ** 3 ** 2 }} {{ -n }} {{ +n }} {{ -n ** 2 }}
{{ f + 1 }} {{ f * 2 }} {{ f // 1 }} {{ f % 2 }} {{ 7.0 // 2 }} {{ -7.5 % 2 }} {{ 1 / 3 }} {{ 10 / 5 }} {{ 1e3 }} {{ 1_000 }} {{ 0x1F }} {{ 0b11 }} {{ 0o17 }} {{ 1.5e-3 }}
{{ "a" + "b" }}{{ "a" * 3 }}{{ 3 * "a" }}{{ [1] * 2 }}{{ [1] + [2] }}{{ (1,) + (2,) }}{{ "a" ~ 1 ~ none ~ true ~ missing ~ 1.0 }}{{ -1 * "a" }}
{{ "a" + 1 }}
{{ 1 + "a" }}
{{ "a" + missing }}
{{ "a" + none }}
{{ [1] + (2,) }}
{{ missing.x }}
{{ missing["x"] }}
{{ d.missing.x }}
{{ nil.x }}|{{ nil["x"] }}|{{ n.x }}|{{ l.x }}|{{ l[10] }}|{{ l[-1] }}|{{ l[-4] }}|{{ s[0] }}|{{ s[-1] }}|{{ s[99] }}|{{ l["x"] }}|{{ u[7] }}
{{ missing() }}
{{ n() }}
{{ s.nope() }}
{{ d.z }}{{ d["z"] }}{{ d.a }}{{ d["items"] }}{{ d.items()|list }}{{ d.keys()|list }}{{ d.values()|list }}{{ d.get("z") }}{{ d.get("q") }}{{ d.get("q", 5) }}{{ d|length }}
{{ nested.a.b[1].c }}{{ nested["a"]["b"][0]["c"] }}{{ nested.a.b.0.c }}
{{ s[1:3] }}|{{ s[:3] }}|{{ s[-3:] }}|{{ s[::-1] }}|{{ s[::2] }}|{{ s[5:1] }}|{{ s[5:1:-1] }}|{{ l[1:] }}|{{ l[:-1] }}|{{ l[::-1] }}|{{ l[10:] }}|{{ l[:] }}|{{ (1,2,3)[1:] }}|{{ u[:8] }}
{{ l[::0] }}
{{ l["a":] }}
{{ 1 == 1.0 }}{{ true == 1 }}{{ "a" == 1 }}{{ none == missing }}{{ missing == missing2 }}{{ l == [3,1,2] }}{{ l == (3,1,2) }}{{ d == d }}{{ "a" < "b" }}{{ [1,2] < [1,3] }}{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 3 > 2 >= 2 != 1 }}
{{ "a" < 1 }}
{{ missing < 1 }}
{{ none < 1 }}
{{ 1 in l }}{{ 9 in l }}{{ 9 not in l }}{{ "ell" in s }}{{ "z" in d }}{{ "q" in d }}{{ 1 in missing }}{{ not 1 in l }}{{ "a" in "abc" and "b" in "abc" }}
{{ 1 in s }}
{{ 1 in none }}
{{ missing in s }}
{{ n and s }}|{{ empty and s }}|{{ empty or s }}|{{ n or s }}|{{ not n }}|{{ not empty }}|{{ not not n }}|{{ 1 if n else 2 }}|{{ 1 if empty else 2 }}|{{ 1 if empty }}|{{ 1 if empty else 2 if empty else 3 }}|{{ nil or empty or 0 or le }}
{{ (1 if empty) is defined }}|{{ (1 if empty).x }}
{% if n > 5 and s %}yes{% elif n %}maybe{% else %}no{% endif %}{% if empty %}a{% elif 1 %}b{% endif %}{% if missing %}x{% endif %}
{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }};{% endfor %}
{% for x in le %}a{% else %}none{% endfor %}{% for x in missing %}a{% else %}undef{% endfor %}{% for c in "ab" %}[{{ c }}]{% endfor %}{% for k in d %}{{ k }}{% endfor %}
{% for x in none %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in d|items %}{{ k }}{% endfor %}{% for k, v in d|dictsort %}{{ k }}={{ v }},{% endfor %}
{% for a, b in [[1,2],[3,4]] %}{{ a }}{{ b }}{% endfor %}{% for (a, b) in [(1,2)] %}{{ a }}{{ b }}{% endfor %}{% for a, (b, c) in [(1,(2,3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for a, b in [[1,2,3]] %}{% endfor %}
{% for x in l if x > 1 %}{{ x }}{{ loop.index }}{{ loop.length }}{% else %}e{% endfor %}{% for m in msgs if m.role == "user" %}{{ m.content }}{{ loop.last }}{% endfor %}
{% for x in [1,2,3,4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in [1,2] %}{% for y in [1,2] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% set x = 0 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(x=0, y="a") %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.z }}
{% set ns = namespace() %}{% if true %}{% set ns.a = 1 %}{% set v = 2 %}{% endif %}{{ ns.a }}{{ v }}
{% set d.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = [b, a] %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}
{% set x %}block {{ n }}{% endset %}{{ x }}|{{ x is string }}{% set y | upper | trim %} abc {% endset %}{{ y }}
{% if false %}{% set z = 1 %}{% endif %}{{ z }}|{{ z is defined }}
{% for i in [1] %}{% set inner = 5 %}{% endfor %}{{ inner is defined }}
{% set x = 1 %}{% for i in [1,2] %}{{ x }}{% set x = i + 10 %}{{ x }}{% endfor %}{{ x }}
{% with a = 1, b = n %}{{ a }}{{ b }}{% set c = 3 %}{% endwith %}{{ a is defined }}{{ c is defined }}
{% macro m(a, b=2, c=none) %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=0) }}{{ m() }}{{ m(1, c=s) }}{{ m.name }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}
{% macro m(a, a2=a) %}{{ a }}{{ a2 }}{% endmacro %}{{ m(1) }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{% macro g() %}{{ later }}{% endmacro %}{% set later = 5 %}{{ g() }}
{% macro h() %}{% set q = 1 %}{{ q }}{% endmacro %}{{ h() }}{{ q }}
{% macro wrap() %}[{{ caller() }}]{% endmacro %}{% call wrap() %}inner {{ n }}{% endcall %}
{% macro each(l) %}{% for x in l %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(x) each(l) %}<{{ x }}>{% endcall %}
{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace("a", "b")|trim %} aaa {% endfilter %}
{% for x in [[1,[2,[3]]]] recursive %}{% if x is iterable %}({{ loop(x) }}{{ loop.depth }}){% else %}{{ x }}{% endif %}{% endfor %}
{% for x in l %}{{ loop(l) }}{% endfor %}
{% for x in [1,1,2] %}{{ loop.changed(x) }}{{ loop.cycle("a", "b") }}{% endfor %}
{% raw %}{{ not }} {% if %}{% endraw %}after{%- raw -%}  x  {%- endraw -%}  y
a {# comment #} b {#- c -#} d{# multi
line #}
e
{% generation %}text {{ n }}{% set g = 1 %}{% endgeneration %}{{ g is defined }}
{{ raise_exception("no") }}
{{ "a" "b" 'c' }}{{ 'it\'s' }}{{ "\n\t\\\"\x41\u00e9\101\q" }}{{ 'multi
line' }}
{{ {"a": 1, "b": [1, {"c": none}], 3: true} }}{{ {"a": 1}["a"] }}{{ {"a": {"b": {}}} }}{{ dict(a=1, b=2) }}{{ dict(d, z=9)["z"] }}
{{ range(3)|list }}{{ range(1, 4)|list }}{{ range(5, 0, -2)|list }}{% for i in range(2) %}{{ i }}{% endfor %}{{ range(3)|length }}
{{ n is defined }}{{ missing is defined }}{{ missing is undefined }}{{ nil is none }}{{ nil is defined }}{{ d.n is none }}{{ d.q is none }}{{ s is string }}{{ n is number }}{{ n is integer }}{{ f is float }}{{ t is number }}{{ t is integer }}{{ t is boolean }}{{ d is mapping }}{{ l is sequence }}{{ s is iterable }}{{ n is iterable }}{{ nil is iterable }}{{ t is true }}{{ no is false }}{{ n is true }}{{ 1 is true }}
{{ 4 is even }}{{ 3 is odd }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}{{ n is eq 7 }}{{ n is equalto(7) }}{{ n is ne 7 }}{{ n is gt 3 }}{{ n is lessthan 3 }}{{ 1 is in [1] }}{{ n is sameas n }}{{ "A" is upper }}{{ "a" is lower }}{{ range is callable }}{{ n is callable }}{{ "upper" is filter }}{{ "nope" is filter }}{{ "odd" is test }}{{ n is not none }}{{ n is not defined }}{{ not n is none }}
{{ s is string and n is number or false }}{{ "x" if s is string else "y" }}{{ (n is number) == true }}{{ msgs[3].x is defined and msgs[0].x is not defined }}
{{ s|upper }}{{ s|lower }}{{ s|length }}{{ "abc def"|capitalize }}{{ "hello world-foo (bar"|title }}{{ sp|trim }}|{{ "xxaxx"|trim("x") }}|{{ nil|trim }}|{{ n|string }}|{{ s|replace("l", "L") }}{{ s|replace("l", "L", 1) }}{{ n|string|length }}{{ u|length }}{{ missing|length }}{{ missing|upper }}|
{{ missing|default("d") }}{{ empty|default("d") }}{{ empty|default("d", true) }}{{ nil|default("d") }}{{ nil|default("d", boolean=true) }}{{ d.q|default(none) }}{{ missing|d("x") }}{{ missing|default }}|
{{ l|first }}{{ l|last }}{{ le|first }}{{ s|first }}{{ l|sort }}{{ l|sort(reverse=true) }}{{ ls|sort }}{{ ls|sort(case_sensitive=true) }}{{ l|reverse|list }}{{ s|reverse }}{{ l|sum }}{{ l|min }}{{ l|max }}{{ ls|join(",") }}{{ l|join }}{{ [1,1,2,"a","A"]|unique|list }}{{ s|list }}{{ d|list }}
{{ msgs|map(attribute="role")|join(",") }}|{{ msgs|selectattr("role", "equalto", "user")|list|length }}|{{ msgs|rejectattr("role", "eq", "user")|map(attribute="content")|list }}|{{ msgs|selectattr("x")|list }}|{{ msgs|selectattr("x", "defined")|list|length }}|{{ l|select("gt", 1)|list }}|{{ l|reject("odd")|list }}|{{ l|select|list }}|{{ ls|map("upper")|list }}|{{ ls|map("replace", "b", "z")|join }}|{{ msgs|map(attribute="x", default="-")|list }}|{{ none|map("upper")|list }}|{{ msgs|map(attribute="content")|select("string")|list }}
{{ msgs|groupby("role")|length }}{% for role, items in msgs|groupby("role") %}{{ role }}:{{ items|length }};{% endfor %}{% for row in range(5)|batch(2, "x") %}{{ row }}{% endfor %}{{ msgs|sum(attribute="x", start=1) if false else "" }}{{ [{"a":{"b":2}},{"a":{"b":1}}]|sort(attribute="a.b")|map(attribute="a.b")|list }}
{{ "3"|int }}{{ "3.9"|int }}{{ "x"|int }}{{ "x"|int(5) }}{{ 3.9|int }}{{ "ff"|int(base=16) }}{{ "2.5"|float }}{{ "x"|float }}{{ n|float }}{{ neg|abs }}{{ 2.5|round }}{{ 3.5|round }}{{ 2.345|round(2) }}{{ n|round }}{{ nil|int }}{{ true|int }}
{{ "a\nb\n\nc"|indent }}|{{ "a\nb"|indent(2, true) }}|{{ "a\n\nb"|indent(1, blank=true) }}|{{ "a\nb"|indent(width="> ") }}|{{ "abc"|center(7) }}|{{ "a b  c"|wordcount }}|{{ "%s is %d and %.2f %%"|format("x", 3, 1.5) }}|{{ "%s-%s" % ("a", 1) }}|{{ "%05d|%-5s|%5s|%x" % (42, "ab", "cd", 255) }}|{{ "<a&'b\">"|e }}|{{ "<a>"|safe }}
{{ "{} {} {0} {name}".format("a") if false else "" }}{{ "{} {}".format("a", 1) }}{{ "{1}{0}".format("a", "b") }}{{ "{x}{{}}".format(x=none) }}
{{ d|tojson }}{{ u|tojson }}{{ u|tojson(ensure_ascii=true) }}{{ q|tojson }}{{ l|tojson(indent=2) }}{{ d|tojson(indent=1) }}{{ {"b":1,"a":[]}|tojson(sort_keys=true) }}{{ l|tojson(separators=(",", ":")) }}{{ {"a":{},"b":[]}|tojson(indent=2) }}{{ mixed|tojson }}{{ big|tojson }}{{ tiny|tojson }}{{ 1.0|tojson }}{{ nil|tojson }}{{ {1: 2, none: 3, true: 4}|tojson }}{{ "\u007f\u0001"|tojson }}{{ (1,2)|tojson }}
{{ missing|tojson }}
{{ d.missing|tojson }}
{{ s.upper() }}{{ s.lower() }}{{ s.title() }}{{ s.swapcase() }}{{ "abc".capitalize() }}{{ s.startswith("He") }}{{ s.endswith("ld") }}{{ s.startswith(("x", "H")) }}{{ s.startswith("W", 6) }}{{ s.find("o") }}{{ s.find("z") }}{{ s.rfind("o") }}{{ s.index("o") }}{{ s.count("l") }}{{ u.find("😀") }}
{{ s.index("zzz") }}
{{ sp.strip() }}|{{ sp.lstrip() }}|{{ sp.rstrip() }}|{{ "xxaxx".strip("x") }}|{{ "xyaxy".lstrip("yx") }}|{{ "a.b.".rstrip(".") }}|{{ "a,b,c".split(",") }}|{{ "a,b,c".split(",", 1) }}|{{ "a,b,c".rsplit(",", 1) }}|{{ sp.split() }}|{{ " a  b c ".split(none, 1) }}|{{ " a  b c ".rsplit(none, 1) }}|{{ "".split() }}|{{ "".split(",") }}|{{ "abc".split("") if false else "" }}
{{ "a-b-c".partition("-") }}{{ "a-b-c".rpartition("-") }}{{ "abc".partition("-") }}{{ "abc".rpartition("-") }}{{ "a\nb\r\nc\n".splitlines() }}{{ "a\nb\n".splitlines(true) }}{{ ",".join(["a", "b"]) }}{{ "-".join("abc") }}{{ "abc".replace("b", "x") }}{{ "aaa".replace("a", "b", 2) }}{{ "abc".replace("", "-") }}{{ "prefix-x".removeprefix("prefix-") }}{{ "x.txt".removesuffix(".txt") }}
{{ ",".join([1]) }}
{{ "5".zfill(3) }}{{ "-5".zfill(4) }}{{ "ab".ljust(4) }}|{{ "ab".rjust(4, "*") }}|{{ "ab".center(6, "-") }}|{{ "12".isdigit() }}{{ "".isdigit() }}{{ "ab".isalpha() }}{{ "a1".isalnum() }}{{ " ".isspace() }}{{ "A".isupper() }}{{ "a1".islower() }}{{ "1".islower() }}{{ "é".isascii() }}
{{ l.append(1) }}
{{ d.update({"a": 1}) }}
{{ d.pop("a") }}
{{ l.index(1) }}{{ l.count(3) }}{{ l|count }}
{{ s|nope }}
{{ s is nope }}
{% nope %}
{% include "x" %}
{{ s
{% if s %}
{% endif %}
{{ }}
{{ s s }}
{{ 1 + }}
{% for x in l %}
{% set %}
{% endfor %}x
{{ [1, 2 }}
{{ "abc }}
{{ a b }}
{% if %}x{% endif %}
{% break %}
{{ s|upper|lower|title|replace("H", "J") }}{{ (s|upper).lower() }}{{ s|upper ~ "x" }}{{ "a" ~ "b"|upper }}{{ -1|abs }}{{ 2 + 3|string|length }}{{ [3,1]|sort|first + 1 }}
{{ messages is defined }}{{ (l|length - 1) - 0 }}{{ l|length - 1 }}{{ l[l|length - 1] }}{{ l[-1] == l|last }}{{ not l|length > 5 }}
{{ {"a": {"b": 1}}.a.b }}{{ [1,2,3][1] }}{{ "abc"[1] }}{{ (1,2)[0] }}{{ (n) }}{{ ((n + 1) * 2) }}{{ [1,2,] }}{{ {"a": 1,} }}{{ n if true }}
{{ "}}" }}{{ "{{" }}{{ '%}' }}{{ {"a": {"b": "}}"}} }}
{{ "a" is string is true }}
{{ d.f }}{{ d.t }}{{ 100000000000000000000000.0 }}{{ 123456789.123 }}{{ 0.1 + 0.2 }}{{ 1e22 }}{{ 5e-324 }}{{ 1.0 }}{{ -0.0 }}
{{ namespace(a=1).a }}{{ msgs[-2:]|map(attribute="role")|list }}{{ msgs[1:][0].content }}{{ msgs|last|attr("role") }}{{ (msgs|first)["role"] }}{{ msgs[0]["content"]|length }}
{{ true and "x" }}{{ True }}{{ None }}{{ False }}{{ none is none }}{{ (none) }}
{{ "a" in ["a"] and not "b" in ["a"] or false }}{{ 1 == 1 and 2 == 2 }}{{ 1 if 1 == 2 else "z" ~ "y" }}
{% set m = msgs[0] %}{% if m.role == "system" and m.content is string %}{{ m.content }}{% endif %}{% set rest = msgs[1:] %}{{ rest|length }}{% for m in rest %}{{ m.role[0] }}{% endfor %}{{ m.role }}
{% for m in msgs[::-1] %}{% set index = (msgs|length - 1) - loop.index0 %}{{ index }}{{ m.role }} {% endfor %}
{% set x = "a,b" %}{% for p in x.split(",") %}{{ p }}{{ "" if loop.last else "+" }}{% endfor %}
"""

WHITESPACE = [
    "a\n{% if true %}\nb\n{% endif %}\nc\n", "a\n  {% if true %}\n  b\n  {% endif %}\nc", "a  {%- if true -%}  b  {%- endif -%}  c", "a\n\n{%- if true %}\n\nb\n\n{%- endif %}\n\nc\n\n",
    "  {{ n }}  \n  {{ n }}\n", "  {{- n -}}  \n x", "a\n  {%+ if true %}b{% endif %}", "a\n{% if true +%}\nb{% endif %}", "x {# c #}\ny\n  {# c #}\nz", "x\n  {#- c -#}\n y", "a\n{# c +#}\nb",
    "\n\na\n\n", "a\n", "a\n\n", "\r\na\rb\r\n", "{% for x in l %}\n  {{ x }}\n{% endfor %}\n", "{% for x in l -%}\n  {{ x }}\n{%- endfor %}\n!", "{%- set x = 1 -%}\n\n {{ x }}", "{% set x = 1 %}\n{{ x }}\n",
    "a\t{% if 1 %}b{% endif %}\n\t{% if 1 %}c{% endif %}", "{% raw %}\n  {{ x }}\n{% endraw %}\n  b", "  {% raw %}  a  {% endraw %}  ", "a\n  {%- raw %} b {% endraw -%}\n c", "{{ n }}\n\n{{ n }}\n", "a {%if n%}b{%endif%}{{n}}c",
    "{% macro f() %}\n  x\n{% endmacro %}\n{{ f() }}\n", "{% macro f() -%}\n  x\n{%- endmacro %}[{{ f() }}]", "{% if 1 %}\n\n  a{% endif %}\n\n\nb", "  x{% if 1 %}y{% endif %}", "{% if 1 %} {% if 1 %}z{% endif %}{% endif %}",
    "\u00a0{% if 1 %}z{% endif %}", "a\u2003\n\u2003{%- if 1 %}z{% endif %}", "{{ n }}\n  {% if 1 %}\n  {{ n }}\n  {% endif %}\nend", "a{{ n }}  {% if 1 %}b{% endif %}", "{{ n }}   {% if 1 %}\n   c{% endif %}",
]

if __name__ == "__main__":
    env = environment()
    cases = []
    for source in [x for x in SNIPPETS.strip("\n").split("\n") if x] + WHITESPACE + [
            SNIPPETS[SNIPPETS.index("a {# comment"):SNIPPETS.index("{% generation")].strip("\n"), "{{ 'multi\nline' }}{{ \"a\\\nb\" }}", "{% for x in l %}\n{% set %}\n{% endfor %}x"]:
        case = {"template": source}
        try:
            case["text"] = env.from_string(source).render(**VARS)
        except Exception as e:
            case["error"] = type(e).__name__ + ": " + str(e)
        cases.append(case)
    json.dump({"variables": VARS, "cases": cases}, sys.stdout, ensure_ascii=True, indent=0)
    print(len(cases), sum("error" in c for c in cases), file=sys.stderr)
