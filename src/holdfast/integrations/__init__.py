"""Holdfast in other people's libraries; each module needs the library that it is named after."""
