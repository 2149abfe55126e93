# Other scripts read this file from the repository's root: source scripts/lib.sh
# shellcheck shell=bash

export LC_ALL=C

# cannot_run REASON: ends a part of make test that cannot run on this machine. scripts/test reads
# the reason from the file that it names in CANNOT_RUN_FILE.
cannot_run() {
    echo "cannot run: $*" >&2
    if [[ -n ${CANNOT_RUN_FILE:-} ]]; then
        echo "$*" >"$CANNOT_RUN_FILE"
    fi
    exit 77
}

# build_java [MAVEN'S OPTIONS]: builds the Java SDK. Only one part of make test builds it at a time:
# the lock ends with the script, or with "exec 8>&-".
build_java() {
    mkdir -p bin
    exec 8>bin/java.lock
    flock 8
    mvn --batch-mode --no-transfer-progress --quiet -f sdk/java/pom.xml package "$@"
}

have() { command -v "$1" >/dev/null 2>&1; }

# find_root: sets as_root to a prefix that runs a command as root. It returns 1 if this user may not
# become root.
# shellcheck disable=SC2034 # scripts that source this file read it
find_root() {
    if ((EUID == 0)); then
        as_root=(env)
    elif have sudo && sudo -n true 2>/dev/null; then
        as_root=(sudo -n env)
    else
        return 1
    fi
}

# temporary_in_memory: keeps the temporary files of tests in memory if at least 4 GB are free there
# and programs can run there. Some tests wait for the disk most of their time. The path is always
# the same, because go test does not reuse the result of a test that ran with another TMPDIR.
temporary_in_memory() {
    local dir=/dev/shm/cp-tests-$EUID free_kB
    free_kB=$(df --output=avail /dev/shm 2>/dev/null | tail -n 1) || free_kB=0
    if [[ -n ${TMPDIR:-} ]] || ((free_kB < 4 << 20)) ||
        ! awk '/^MemAvailable/ { exit $2 < 4 * 2 ^ 20 }' /proc/meminfo; then
        return
    fi
    if { [[ -d $dir ]] || mkdir -m 700 "$dir"; } && [[ -O $dir && ! -L $dir ]] &&
        install -m 700 /bin/true "$dir/runs" && "$dir/runs"; then
        export TMPDIR=$dir
    fi
} 2>/dev/null

# tests_matching PREFIX: prints "directory name" for every test and fuzz target whose name begins
# with the prefix. It reads the source, because "go test -list" links the tests of all packages.
tests_matching() {
    git grep --untracked -oE "^func $1[[:alnum:]_]*\(" -- '*_test.go' ':!report/export/collector' |
        sed -E 's|^(.*/)?[^/]*:func ([[:alnum:]_]+)\($|./\1 \2|'
}

# packages_without_cgo: prints the packages whose code and tests do not import ZeroMQ, directly or
# indirectly. Only ZeroMQ needs cgo.
packages_without_cgo() {
    CGO_ENABLED=1 go list -test -f '{{or .ForTest .ImportPath}} {{join .Deps " "}}' ./... | awk '
        $1 ~ /\.test$/ { next }
        { seen[$1] = 1 }
        /github.com\/pebbe\/zmq4/ { reaches[$1] = 1 }
        END { for (p in seen) if (!reaches[p]) print p }' | sort
}

# find_python MODULE...: sets CLOUDPROFILER_PYTHON to a Python that has these modules. If there is
# none, it installs packages of the same names from the Python package index into a cache of this
# user. If that fails, it says why and returns 1.
find_python() {
    local python=${CLOUDPROFILER_PYTHON:-python3} import
    local environment=${XDG_CACHE_HOME:-$HOME/.cache}/cloudprofiler/python
    import="import $(IFS=,; echo "$*")"
    CANNOT_RUN_FILE='' scripts/install python || return 1 # the caller says what cannot run
    if ! "$python" -c "$import" 2>/dev/null; then
        if ! [[ -x $environment/bin/python ]] ||
            ! "$environment/bin/python" -c "$import" 2>/dev/null; then
            if ! "$python" -m venv "$environment" ||
                ! "$environment/bin/pip" install --quiet --disable-pip-version-check "$@"; then
                echo "needs the Python packages $*, and they could not be installed into" \
                    "$environment: pip install $*, or name a Python that has them in" \
                    "CLOUDPROFILER_PYTHON" >&2
                return 1
            fi
        fi
        python=$environment/bin/python
    fi
    export CLOUDPROFILER_PYTHON=$python
}

# find_chronyd: puts a chronyd on the PATH. If none is installed and this user is root, it unpacks
# Debian's into a cache of this user. It does not install the package, which would take over this
# machine's clock. If there is no chronyd, it says so and returns 1.
find_chronyd() {
    local cache=${XDG_CACHE_HOME:-$HOME/.cache}/cloudprofiler/chrony
    PATH=$PATH:/usr/sbin:$cache/usr/sbin
    if have chronyd || ((EUID != 0)); then return; fi
    if have apt-get && have dpkg-deb; then
        mkdir -p "$cache"
        # Even if the update fails, the old package lists may be good enough: only the download
        # decides.
        apt-get update </dev/null >/dev/null 2>&1 || true
        (cd "$cache" && apt-get download chrony </dev/null &&
            dpkg-deb -x chrony_*.deb . && rm chrony_*.deb) >/dev/null 2>&1 || true
    fi
    if ! chronyd --version >/dev/null 2>&1; then
        echo "no chronyd here: what NTP would claim is not shown" >&2
        return 1
    fi
}
