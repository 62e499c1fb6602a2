"""Hands a query to a Flink cluster that runs, and leaves it there: PORT SETTINGS STATEMENTS.

SETTINGS is a JSON object, STATEMENTS a JSON list of SQL whose last is the INSERT. The job outlives
this process, as it belongs to the cluster; its number is the report.
"""

import json
import os
import sys

# The client's JVM would take a quarter of the machine; it only plans one query.
os.environ["JVM_ARGS"] = "-Xmx512m"

import pyflink.version
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, StreamTableEnvironment
from pyflink.util.java_utils import to_jarray

port, settings, statements = int(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
configuration = Configuration()
for key, value in settings.items():
    configuration.set_string(key, value)
gateway = get_gateway()
# Python's get_execution_environment() keeps to a cluster of its own outside of `flink run`.
java = gateway.jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment
remote = java.createRemoteEnvironment(
    "127.0.0.1", port, configuration._j_configuration, to_jarray(gateway.jvm.String, [])
)
tables = StreamTableEnvironment.create(
    StreamExecutionEnvironment(remote), EnvironmentSettings.in_streaming_mode()
)
for statement in statements[:-1]:
    tables.execute_sql(statement)
job = tables.execute_sql(statements[-1]).get_job_client().get_job_id()
report = {"job": str(job), "version": pyflink.version.__version__}
sys.stdout.write(json.dumps(report) + "\n")
