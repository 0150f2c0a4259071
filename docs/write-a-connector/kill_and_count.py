# SPDX-License-Identifier: Apache-2.0
"""Kills the driver of `copy_orders.py` midway, restarts it, and counts the orders.

kill_and_count.py FOLDER, which takes the files, the checkpoint and the logs, and must be new.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds

from connector_shops.testing import Account, running_server

SHOPS = (1, 2, 3)
ORDERS = 4000  # of each shop
TOKEN = "open sesame"  # noqa: S105


def orders_in(folder: Path) -> Counter[tuple[int, int]]:
    """Return how often the files contain each order, by shop and number."""
    table = ds.dataset(folder / "out", format="parquet").to_table(["shop", "number"])
    return Counter(zip(*table.to_pydict().values(), strict=True))


def wait_for_files(folder: Path, driver: subprocess.Popen[bytes]) -> None:
    """Wait until some orders are in files."""
    deadline = time.monotonic() + 240
    while not list(folder.glob("out/*.parquet")):
        assert driver.poll() is None, "the driver ended by itself, see driver.log"
        assert time.monotonic() < deadline, "no file appeared"
        time.sleep(0.05)


def main(folder: Path) -> None:
    """Copy, kill, copy, count."""
    folder.mkdir(parents=True)
    environment = {**os.environ, "SHOPS_TOKEN": TOKEN}
    with running_server() as address:
        account = Account(address, TOKEN)
        for shop in SHOPS:
            at = "2026-01-01T08:30:00+00:00"
            orders = [{"number": n, "at": at, "item": f"tea {n}"} for n in range(ORDERS)]
            account.add(shop, orders)
        command = [sys.executable, "copy_orders.py", address, str(folder)]
        with (folder / "driver.log").open("wb") as log:
            driver = subprocess.Popen(command, env=environment, stderr=log)  # noqa: S603
            try:
                wait_for_files(folder, driver)
            finally:
                driver.kill()  # SIGKILL
                driver.wait()
            found = orders_in(folder)
            print(f"killed when {len(found)} of {len(SHOPS) * ORDERS} orders were in files")
            subprocess.run(command, env=environment, stderr=log, check=True)  # noqa: S603
    found = orders_in(folder)
    lost = len(SHOPS) * ORDERS - len(found)
    doubled = sum(number > 1 for number in found.values())
    print(f"{len(found)} orders are in files, {lost} lost, {doubled} doubled")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
