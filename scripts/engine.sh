# shellcheck shell=bash
# For scripts/demo-flink, demo-storm and demo-kafka: builds the Java agent, a job and the program
# that runs the demonstration. Everything comes from Maven Central or from this repository.

# shellcheck disable=SC2034 # the scripts that source this file read it
agent=sdk/java/cloudprofiler-javaagent/target/cloudprofiler.jar
logs=bin/java/logs

# build_engine NAME [MAVEN'S OPTIONS]: prints to stderr, because stdout is the program's
build_engine() {
    local name=$1
    shift
    scripts/install build java
    echo "building the agent and the job: minutes the first time, for Maven's downloads"
    mvn -q -B -f sdk/java/pom.xml package -DskipTests
    mvn -q -B -f "examples/$name/pom.xml" package "$@"
    go build -o "bin/java/$name" "./examples/$name"
    rm -rf "$logs"
    mkdir -p "$logs"
} >&2
