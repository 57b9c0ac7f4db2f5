#!/bin/sh
# Runs a script of a package. npm puts the programs of all packages first in its PATH, those of
# packages without permission too: a program `sh`, `node` or `make` of theirs would run in it.
left=$PATH:
PATH=
while [ -n "$left" ]; do
    entry=${left%%:*}
    left=${left#*:}
    case $entry in
    */node_modules/.bin) ;;
    /*) PATH=${PATH:+$PATH:}$entry ;;
    esac
done
export PATH
exec /bin/sh "$@"
