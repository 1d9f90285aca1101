"""The configuration file: one YAML file, every key of it checked (S15-S17).

Importing this loads neither pydantic nor ruamel.yaml; the first file does.
"""

from longturn.config.document import Problem
from longturn.config.effective import Setting, effective
from longturn.config.migration import Migration, migrate
from longturn.config.settings import Config, Examined, ModelSettings, examine, load, read, read_file

__all__ = [
    "Config",
    "Examined",
    "Migration",
    "ModelSettings",
    "Problem",
    "Setting",
    "effective",
    "examine",
    "load",
    "migrate",
    "read",
    "read_file",
]
