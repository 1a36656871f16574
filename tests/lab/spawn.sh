#!/bin/sh
# spawn.sh PIDFILE CGROUPS COMMAND...: write "pid start-time" of this process, enter the control
# groups (separated by ":"), then become COMMAND. The process itself writes the record: the lab may
# die at any moment, and the next one must know which process was started, safe from reused pids.
set -eu
pidfile=$1
groups=$2
shift 2
read -r stat </proc/self/stat
# The name in field 2 is "(sh)" or the like, so fields split on blanks: 1 is the pid, 22 the start
# time (proc(5)).
echo "$stat" | cut -d ' ' -f 1,22 >"$pidfile.new"
mv "$pidfile.new" "$pidfile"
IFS=:
for group in $groups; do
    echo $$ >"$group/cgroup.procs"
done
exec "$@"
