#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lay-in.sh REPOSITORY CONNECTOR: adds a commit to a clone of the main repository that replaces the
# folder CONNECTOR with HEAD of REPOSITORY. The tools read commits, so a plain copy is not enough.
set -euo pipefail

repository=$1 connector=$2
if [[ ! $connector =~ ^connector-[a-z0-9]+(-[a-z0-9]+)*$ ]]; then
  echo "expected the name of a connector, such as connector-kafka; found $connector" >&2
  exit 2
fi
git fetch --quiet --no-tags "$repository" HEAD
git rm -r --quiet --ignore-unmatch -- "$connector"
git read-tree --prefix="$connector/" -u FETCH_HEAD
git -c user.name=ci -c user.email=ci@localhost commit --quiet --allow-empty \
  --message "$connector at $(git rev-parse --short FETCH_HEAD)"
