"""A loop inside the JVM without Java of ours: method handles of the JDK enter, operators on lists leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class MethodHandles:
    """A loop inside the JVM, put together from the JDK's method handles.

    A call from Python for each bean would cost more than all the rest. So a list of questions is turned, by one call,
    into the list of their answers as text: `questions.replaceAll(asker)`, where the asker is
    `(name, attributes) -> String.valueOf(connection.getAttributes(ObjectName.getInstance(name), attributes))`,
    and an exception of a single bean is its answer. One of the connection ends the loop.
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
        look = self._methods.publicLookup()
        connection = find(f"{management}MBeanServerConnection")
        self._ask = look.findVirtual(connection, "getAttributes", self._type(attributes, bean, names))
        self._name = look.findStatic(bean, "getInstance", self._type(bean, of_string))
        self._text = look.findStatic(of_string, "valueOf", self._type(of_string, of_object))
        self._text_of_list = self._text.asType(self._type(of_string, attributes))
        self._text_of_error = self._text.asType(self._type(of_string, self._error))
        names_of, condition = find("java.util.Set"), find(f"{management}QueryExp")
        self._query = look.findVirtual(connection, "queryNames", self._type(names_of, bean, condition))
        self._text_of_set = self._text.asType(self._type(of_string, names_of))
        info = find(f"{management}MBeanInfo")
        self._describe = look.findVirtual(connection, "getMBeanInfo", self._type(info, bean))
        self._text_of_info = self._text.asType(self._type(of_string, info))

    def asker(self, connection: Any) -> Any:
        """The operator that turns questions into answers over a connection."""
        ask = self._by_text(self._ask.bindTo(connection), self._text_of_list)
        return self._as_operator(ask.asSpreader(self._objects, 2))

    def namer(self, connection: Any) -> Any:
        """The operator that turns patterns into the names that match, `connection.queryNames(name, null)`."""
        nothing = self._array(self._java.java.lang.Object, None)
        query = self._methods.insertArguments(self._query.bindTo(connection), 1, nothing)
        return self._as_operator(self._by_text(query, self._text_of_set))

    def describer(self, connection: Any) -> Any:
        """The operator that turns names into what the beans tell about themselves, `connection.getMBeanInfo(name)`."""
        return self._as_operator(self._by_text(self._describe.bindTo(connection), self._text_of_info))

    def _by_text(self, handle: Any, answer_as_text: Any) -> Any:
        """A handle whose first argument, a bean's name, and whose result are text."""
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
