"""Connections to JMX over RMI and Jolokia: the only package that imports py4j and jmxquery."""
