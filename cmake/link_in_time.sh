#!/bin/sh
# link_in_time.sh COMMAND...: runs a link by mold, which takes a second or two. One that has not ended after half a minute
# never would (mold 1.10 hangs on some objects, one link in some thousands): the system's own linker does it then.
timeout 30 "$@"
status=$?
[ $status -eq 124 ] || exit $status
echo "a link by mold did not end: linking again without it" >&2
for argument; do
  shift
  [ "$argument" = -fuse-ld=mold ] || set -- "$@" "$argument"
done
exec "$@"
