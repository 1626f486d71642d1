#!/bin/sh
# TAP: the shared library exports bk_ names and nothing else. Usage: exported_symbols.sh libbrisk.so
others=$(nm -D --defined-only "$1" | awk '{ print $3 }' | grep -v '^bk_')
echo 1..1
if [ -z "$others" ] && nm -D --defined-only "$1" | grep -q ' bk_error$'; then
    echo 'ok 1 - only bk_ names are exported'
else
    echo "not ok 1 - only bk_ names are exported; found:" $others
fi
