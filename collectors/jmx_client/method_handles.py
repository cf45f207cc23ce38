"""Builds loops over beans that run inside the JVM, from the JDK's method handles, so that no Java code is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class MethodHandles:
    """Composes Java operators from method handles.

    A py4j call for each bean would dominate the cost of a poll. Instead one call turns a list of queries into the list of
    their results as text: `queries.replaceAll(reader)`, where the reader is
    `(name, attributes) -> String.valueOf(connection.getAttributes(ObjectName.getInstance(name), attributes))`.
    An exception of a single bean becomes its result; an exception of the connection ends the loop.
    """

    def __init__(self, java: Any, array: Callable[..., Any]) -> None:
        self._java, self._array = java, array
        lang, management = java.java.lang, "javax.management."
        find = lang.Class.forName
        self._kinds = {name: find(f"java.lang.{name}") for name in ("Object", "String")}
        self._objects, names = find("[Ljava.lang.Object;"), find("[Ljava.lang.String;")
        bean, attributes = find(f"{management}ObjectName"), find(f"{management}AttributeList")
        self._error = find(f"{management}JMException")
        self._operator = find("java.util.function.UnaryOperator")
        self._methods, self._proxies = lang.invoke.MethodHandles, lang.invoke.MethodHandleProxies
        of_object, of_string = self._kinds["Object"], self._kinds["String"]
        lookup = self._methods.publicLookup()
        connection = find(f"{management}MBeanServerConnection")
        self._get_attributes = lookup.findVirtual(connection, "getAttributes", self._type(attributes, bean, names))
        self._name = lookup.findStatic(bean, "getInstance", self._type(bean, of_string))
        self._text = lookup.findStatic(of_string, "valueOf", self._type(of_string, of_object))
        self._text_of_list = self._text.asType(self._type(of_string, attributes))
        self._text_of_error = self._text.asType(self._type(of_string, self._error))
        names_of, condition = find("java.util.Set"), find(f"{management}QueryExp")
        self._query = lookup.findVirtual(connection, "queryNames", self._type(names_of, bean, condition))
        self._text_of_set = self._text.asType(self._type(of_string, names_of))
        info = find(f"{management}MBeanInfo")
        self._describe = lookup.findVirtual(connection, "getMBeanInfo", self._type(info, bean))
        self._text_of_info = self._text.asType(self._type(of_string, info))

    def attribute_reader(self, connection: Any) -> Any:
        """The operator from queries to attribute values, `connection.getAttributes(name, attributes)`."""
        read = self._text_to_text(self._get_attributes.bindTo(connection), self._text_of_list)
        return self._as_operator(read.asSpreader(self._objects, 2))

    def name_query(self, connection: Any) -> Any:
        """The operator from patterns to matching names, `connection.queryNames(name, null)`."""
        nothing = self._array(self._java.java.lang.Object, None)
        query = self._methods.insertArguments(self._query.bindTo(connection), 1, nothing)
        return self._as_operator(self._text_to_text(query, self._text_of_set))

    def bean_describer(self, connection: Any) -> Any:
        """The operator from names to bean information, `connection.getMBeanInfo(name)`."""
        return self._as_operator(self._text_to_text(self._describe.bindTo(connection), self._text_of_info))

    def _text_to_text(self, handle: Any, answer_as_text: Any) -> Any:
        """Convert a handle so that its first argument, a bean's name, and its result are text."""
        names = self._array(self._java.java.lang.invoke.MethodHandle, self._name)
        by_name = self._methods.filterArguments(handle, 0, names)
        as_text = self._methods.filterReturnValue(by_name, answer_as_text)
        return self._methods.catchException(as_text, self._error, self._text_of_error)

    def _as_operator(self, handle: Any) -> Any:
        any_to_any = self._type(self._kinds["Object"], self._kinds["Object"])
        return self._proxies.asInterfaceInstance(self._operator, handle.asType(any_to_any))

    def _type(self, result: Any, *arguments: Any) -> Any:
        kinds = self._java.java.util.ArrayList()
        for argument in arguments:
            kinds.add(argument)
        return self._java.java.lang.invoke.MethodType.methodType(result, kinds)
