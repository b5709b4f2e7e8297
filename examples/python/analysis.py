"""Queries on the analysts' views, as cells of a notebook. Open it in an editor that supports `# %%` cells, or run it with
`CLICKHOUSE_URL=… python3 analysis.py` (`npm start` prints the URL). It needs only the standard library. With pandas, pass
the result of `rows()` to DataFrame.
"""
# %%
import base64
import json
import os
import urllib.parse
import urllib.request

given = urllib.parse.urlsplit(os.environ.get("CLICKHOUSE_URL", "http://127.0.0.1:8123"))
URL = f"{given.scheme}://{given.netloc.rpartition('@')[2]}/?default_format=JSON"
HEADERS = {}
# The embedded ClickHouse needs no user, and its user `service` is for the service alone.
if given.username not in (None, "", "service"):
    login = urllib.parse.unquote(f"{given.username}:{given.password or ''}")
    HEADERS["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()


def rows(sql):
    """The rows of a SELECT as dictionaries."""
    with urllib.request.urlopen(urllib.request.Request(URL, sql.encode(), HEADERS)) as answer:
        return json.load(answer)["data"]


def show(title, found):
    """Prints a table."""
    print(f"\n{title}")
    if not found:
        return print("  nothing")
    names = list(found[0])
    table = [names] + [[str(row[name]) for name in names] for row in found]
    widths = [max(len(line[i]) for line in table) for i in range(len(names))]
    for line in table:
        print("  " + "  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())


# %% How much was traded, and by how many traders?
show(
    "Volume of the last days, in dollars",
    rows("""
        SELECT toDate(time) AS day, round(sum(usdc)) AS volume, count() AS matches, uniqExact(trader) AS takers
        FROM analyst.trades WHERE time >= now('UTC') - INTERVAL 7 DAY GROUP BY day ORDER BY day DESC"""),
)

# %% Are prices right? Of the trades with the first outcome at 60 to 70 cents, it should win 60 to 70 per cent.
show(
    "Price and how often it won",
    rows("""
        SELECT 10 * floor(10 * price_yes) AS from_cents, count() AS trades,
            round(100 * avg(winning_outcome_index = 0)) AS won_percent
        FROM analyst.trades AS t JOIN analyst.markets AS m ON t.condition_id = m.condition_id
        WHERE winning_outcome_index IS NOT NULL AND shares > 0 GROUP BY from_cents ORDER BY from_cents"""),
)

# %% Does skill last? Of the hundred who gained most in the previous two weeks, how many gained in the last two?
show(
    "Winners, two weeks later",
    rows("""
        SELECT countIf(later > 0) AS gained, countIf(later < 0) AS lost, round(avg(later), 2) AS mean_dollars
        FROM (
            SELECT sumIf(realised_pnl, day <= toDate(now('UTC')) - 14) AS before, sumIf(realised_pnl, day > toDate(now('UTC')) - 14) AS later
            FROM analyst.trader_days WHERE day > toDate(now('UTC')) - 28
            GROUP BY trader HAVING before > 0 ORDER BY before DESC, trader LIMIT 100)"""),
)
