"""The client is `purse`; this is its former name, which the outside contract keeps."""

from purse import AsyncClient as AsyncClient
from purse import Client as Client
