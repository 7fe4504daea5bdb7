"""Linear attention that PyTorch timed, as a timing table of our schema: rows.py RESULTS/linear.json TABLE.parquet OUT.parquet

TABLE is any table that `shapewise measure` wrote on that GPU: it gives the columns and the name of the GPU. The results say which libraries ran.
"""

import json
import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as pq


def main(path, table, out):
    known = pq.read_table(table)
    gpu = known.column("gpu")[0].as_py()
    columns = {name: [] for name in known.schema.names}
    results = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    ran = next((row for row in results if row["part"] == "environment"), None)
    if ran is None:
        sys.exit(f"{path}: no line has the part `environment`; allowed: what torch_linear.py wrote")
    for row in results:
        if row["part"] != "linear" or "time_us" not in row:
            continue
        row |= {"gpu": gpu, "stack": ran["stacks"][row["kind"]], "source": "docs/gpu-kit/torch_linear.py", "licence": known.column("licence")[0].as_py(),
                "libraries": ran["libraries"]}  # fmt: skip
        for name, cells in columns.items():
            cells.append(row.get(name))
    schema = known.schema.with_metadata({b"shapewise.schema": known.schema.metadata[b"shapewise.schema"]})
    pq.write_table(pa.table(columns, schema=schema), out, compression="zstd")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
